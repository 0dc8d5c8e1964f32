"""`headrace dead`: look at jobs that were given up, send them again, or forget them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.admin import Admin, DeadInfo
from headrace.cli.dead_views import as_json_value, show_job, show_list
from headrace.cli.loading import app_options, chosen_app, looks_like_app, one_app
from headrace.cli.output import complain, harmless, json_document
from headrace.cli.program import FAILED
from headrace.cli.selection import Filter, filter_options, queue_option
from headrace.errors import ConfigError, JobError, JobNotFound

if TYPE_CHECKING:
    from headrace import Headrace

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(no_args_is_help=False)
def dead() -> None:
    """Look at jobs that were given up, send them again, or forget them.

    APP is module:attribute, for example shop:app; without it, the store of --url, $HEADRACE_URL or
    ./headrace.db is meant. If the first of several words looks like an APP, it is one; an id that
    looks like that is safe behind --app.
    """


@dead.command("list")
@click.argument("app", required=False)
@app_options
@filter_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@_json
def list_(
    app: str | None,
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    limit: int,
    as_json: bool,
    **conditions: Any,
) -> None:
    """List dead jobs, the latest first."""
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    wanted = Filter(**conditions)
    # One more than is shown tells whether there are more.
    found = _asked(chosen, partial(_listed, wanted=wanted, limit=limit + 1))
    if as_json:
        json_document([as_json_value(info) for info in found[:limit]])
        return
    show_list(found[:limit])
    if len(found) > limit:
        click.echo(f"(there are more than {limit}: see --limit)", err=True)


@dead.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] ID")
@app_options
@queue_option
@_json
def show(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    queue: str | None,
    as_json: bool,
) -> None:
    """Show all that is known of one dead job: every attempt, its arguments, its bytes."""
    app, ids = _split(words, app_option, app_alone=False)
    if len(ids) != 1:
        raise ConfigError(f"show takes one id, not {len(ids)}")
    chosen = chosen_app(app, url, namespace)
    try:
        info = _asked(chosen, lambda admin: admin.dead_job(ids[0], queue))
    except JobNotFound:
        raise JobError(f"there is no dead job {ids[0]}", ids[0]) from None
    if as_json:
        json_document(as_json_value(info, whole=True))
    else:
        show_job(info)


def _deed_options(command: Command) -> Command:
    for option in (
        _json,
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--all", "everything", is_flag=True, help="All dead jobs of all queues."),
        filter_options,
        app_options,
        click.argument("words", nargs=-1, metavar="[APP] [ID]..."),
    ):
        command = option(command)
    return command


@dead.command()
@_deed_options
def replay(**options: Any) -> None:
    """Send dead jobs again, as they were, with a clean past.

    Named by id, or all that --queue, --task, --reason and --since leave, or --all. In a terminal it
    asks first, unless ids are given.
    """
    _do("replay", "replayed", **options)


@dead.command()
@_deed_options
def purge(**options: Any) -> None:
    """Forget dead jobs for good.

    Named by id, or all that --queue, --task, --reason and --since leave, or --all. Asks first;
    where there is no terminal to ask in, it needs --yes.
    """
    _do("purge", "purged", **options)


def _do(
    verb: str,
    done: str,
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
    wanted = Filter(**conditions)
    app, ids = _split(words, app_option, app_alone=bool(wanted) or everything)
    _check(verb, ids, wanted, everything)
    chosen = chosen_app(app, url, namespace)
    if not yes:
        _ask(verb, ids, wanted)
    count = _asked(chosen, partial(_acted, verb=verb, ids=ids, wanted=wanted))
    if as_json:
        json_document({done: count})
    else:
        click.echo(f"{done} {count} job{'' if count == 1 else 's'}")
    missing = len(set(ids)) - count
    if ids and missing:
        complain(f"not dead (any more): {missing} of the {len(set(ids))} jobs")
        click.get_current_context().exit(FAILED)


def _ask(verb: str, ids: list[str], wanted: Filter) -> None:
    """Let a person confirm. A replay loses nothing: it asks only before many of them, and where
    nobody can be asked it goes on; a purge does not."""
    in_terminal = sys.stdin.isatty()
    if verb == "purge" and not in_terminal:
        raise ConfigError("purge cannot ask without a terminal: say --yes if you mean it")
    if verb == "purge" or (in_terminal and not ids):
        what = f"{len(ids)} dead job(s)" if ids else str(wanted)
        click.confirm(f"{verb.capitalize()} {harmless(what)}?", abort=True, err=True)


def _check(verb: str, ids: list[str], wanted: Filter, everything: bool) -> None:
    if not ids and not wanted and not everything:
        raise ConfigError(f"say what to {verb}: ids, --queue, --task, --reason, --since or --all")
    if everything and (ids or wanted):
        raise ConfigError("--all means all dead jobs: leave out ids and other conditions")
    if ids and (wanted.reason, wanted.task, wanted.since) != (None, None, None):
        raise ConfigError("give ids, or --task, --reason and --since, not both")


def _split(
    words: tuple[str, ...], app_option: str | None, *, app_alone: bool
) -> tuple[str | None, list[str]]:
    """The app, if the first word is one, and the ids. A single word is an app only if `app_alone`
    says that no id is needed."""
    if app_option is None and words and looks_like_app(words[0]) and (len(words) > 1 or app_alone):
        return words[0], list(words[1:])
    return app_option, list(words)


def _asked(app: Headrace, question: Callable[[Admin], Awaitable[T]]) -> T:
    async def answer() -> T:
        async with app:
            return await question(app.admin)

    return asyncio.run(answer())


async def _listed(admin: Admin, *, wanted: Filter, limit: int) -> list[DeadInfo]:
    return await admin.dead(
        wanted.queue, reason=wanted.reason, task=wanted.task, since=wanted.since, limit=limit
    )


async def _acted(admin: Admin, *, verb: str, ids: list[str], wanted: Filter) -> int:
    act = admin.replay if verb == "replay" else admin.purge
    if ids:
        return await act(ids, wanted.queue)
    if wanted:
        return await act(
            queue=wanted.queue, reason=wanted.reason, task=wanted.task, since=wanted.since
        )
    return sum([await act(queue=queue.name) for queue in await admin.queues()])
