"""`headrace dead`: list, show, replay and purge dead jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.admin import JobFilter
from headrace.admin.filters import EVER
from headrace.cli.app_command import (
    Noun,
    acted,
    admin_of,
    asked,
    confirm,
    json_option,
    of_app,
    secrets_option,
    split,
    warn_of_redacted_search,
    within,
    yes_option,
)
from headrace.cli.app_loader import app_options, chosen_app
from headrace.cli.filters import dead_options, of_job, parse_edits
from headrace.cli.jobs.dead_views import as_json_value, row, show_groups, show_job, show_list
from headrace.cli.jobs.unknown_names import warn_of_unknown
from headrace.cli.output import Shown, complain, json_document, show_result
from headrace.cli.program import FAILED
from headrace.core.display import plural
from headrace.errors import ConfigError, JobError, JobNotFound

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import Admin

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(cls=Noun)
def dead() -> None:
    """List, show, replay and purge dead jobs: those that were given up. Without a command: list.

    APP is module:attribute, for example shop:app; without it, the store of --url, $HEADRACE_URL or
    ./headrace.db is used. A first word that looks like an APP is taken for one: for an id that
    looks so, name the app with --app, or the store with --url.
    """


@dead.command("list")
@of_app
@dead_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@secrets_option
@json_option
def list_(app: Headrace, limit: int, as_json: bool, **conditions: Any) -> None:
    """List dead jobs, the latest first."""
    wanted = JobFilter(**conditions)
    warn_of_redacted_search(app, wanted.search)
    shown = Shown(row, as_json_value, limit, as_json=as_json)
    asked(app, lambda app: shown.of(admin_of(app).each_dead(wanted.queue, **wanted.for_dead)))
    shown.end(show_list)
    warn_of_unknown(app, wanted.queue, None if shown.count else wanted.task)


@dead.command()
@of_app
@dead_options
@click.option(
    "--scan",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    metavar="N",
    help="Examine the latest N dead jobs at most.",
)
@secrets_option
@json_option
def groups(app: Headrace, scan: int, as_json: bool, **conditions: Any) -> None:
    """Count dead jobs that failed alike: by task, reason, type of error, and the place in the code
    that raised it. Replay or purge a group with the same words as options."""
    wanted = JobFilter(**conditions)
    warn_of_redacted_search(app, wanted.search)
    found = asked(
        app, lambda app: admin_of(app).dead_groups(wanted.queue, scan=scan, **wanted.for_dead)
    )
    if as_json:
        json_document(asdict(found))
    else:
        show_groups(found)
    warn_of_unknown(app, wanted.queue, None if found.groups else wanted.task)


@dead.command()
@of_job
def show(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Show one dead job: its attempts, arguments and bytes."""
    try:
        info = asked(app, lambda app: admin_of(app).dead_job(id, queue))
    except JobNotFound:
        raise JobError(f"there is no dead job {id}", id) from None
    if as_json:
        json_document(as_json_value(info, whole=True))
    else:
        show_job(info)


def _action_options(command: Command) -> Command:
    for option in (
        json_option,
        secrets_option,
        yes_option,
        click.option("--all", "everything", is_flag=True, help="All dead jobs of all queues."),
        dead_options,
        app_options,
        click.argument("words", nargs=-1, metavar="[APP] [ID]..."),
    ):
        command = option(command)
    return command


@dead.command()
@_action_options
@click.option(
    "--set",
    "edit",
    multiple=True,
    callback=parse_edits,
    metavar="NAME=JSON",
    help="Change this argument; may be repeated. Needs an APP.",
)
def replay(edit: dict[str, Any], **options: Any) -> None:
    """Send dead jobs again with all their tries, as they were or with other arguments.

    The attempts so far stay in the history of the job. Choose jobs by id, by --queue, --task,
    --reason, --error, --search, --since and --until, or with --all. In a terminal it asks first,
    unless ids are given. With --set, nothing is sent unless the new arguments fit every job's task.
    """
    _do("replay", "replayed", edit or None, **options)


@dead.command()
@_action_options
def purge(**options: Any) -> None:
    """Delete dead jobs for good.

    Choose jobs by id, by --queue, --task, --reason, --error, --search, --since and --until, or
    with --all. Asks first; without a terminal, it needs --yes.
    """
    _do("purge", "purged", None, **options)


def _do(
    verb: str,
    done: str,
    edit: dict[str, Any] | None,
    *,
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    everything: bool,
    yes: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    wanted = JobFilter(**conditions)
    app, ids = split(
        words,
        app_option,
        store_named=bool(url or namespace),
        app_alone=bool(wanted) or everything,
    )
    _check(verb, app, ids, wanted, everything)
    chosen = chosen_app(app, url, namespace)
    warn_of_redacted_search(chosen, wanted.search)
    # A replay loses nothing: it asks only before many, and only at a terminal.
    if not yes and (verb == "purge" or (sys.stdin.isatty() and not ids)):
        confirm(verb, f"{len(ids)} dead job(s)" if ids else wanted.describe_dead())
    count = acted(chosen, lambda admin: _done(admin, verb, edit, ids, wanted))
    show_result(f"{done} {plural(count, 'job')}", {done: count}, as_json=as_json)
    warn_of_unknown(chosen, wanted.queue, None if count else wanted.task)
    missing = len(set(ids)) - count
    if ids and missing:
        # What was purged is unknown too.
        unknown = (
            asked(chosen, lambda app: _unknown(admin_of(app), ids)) if verb == "replay" else []
        )
        if unknown:
            complain(f"not in the store (any more): {', '.join(unknown)}")
        if missing > len(unknown):
            left = missing - len(unknown)
            complain(f"not dead (any more): {left} of the {len(set(ids))} jobs")
        click.get_current_context().exit(FAILED)


async def _unknown(admin: Admin, ids: list[str]) -> list[str]:
    """Those of the ids under which there is no job."""
    unknown: list[str] = []
    for id in dict.fromkeys(ids):
        try:
            await admin.where(id)
        except JobNotFound:
            unknown.append(id)
    return unknown


def _check(verb: str, app: str | None, ids: list[str], wanted: JobFilter, everything: bool) -> None:
    if not ids and not wanted and not everything:
        raise ConfigError(
            f"say what to {verb}{within(app)}: ids, --queue, --task, --reason, --error, --search, "
            "--since, --until or --all"
        )
    if everything and (ids or wanted):
        raise ConfigError("--all means all dead jobs: leave out ids and other conditions")
    if ids and wanted.is_narrow:
        raise ConfigError(
            "give ids, or --task, --reason, --error, --search, --since and --until, not both"
        )


async def _done(
    admin: Admin, verb: str, edit: dict[str, Any] | None, ids: list[str], wanted: JobFilter
) -> int:
    named = ids or None
    if ids or wanted:
        if verb == "purge":
            return await admin.purge(named, wanted.queue, **wanted.for_dead)
        return await admin.replay(named, wanted.queue, edit=edit, **wanted.for_dead)
    # All of them, in all queues.
    if verb == "purge":
        return await admin.purge(since=EVER)
    return await admin.replay(since=EVER, edit=edit)
