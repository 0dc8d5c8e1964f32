"""`headrace jobs`: find jobs, look at them, follow them, cancel them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.admin import JobFilter
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
from headrace.cli.filters import job_options, of_job, queue_option
from headrace.cli.jobs.lookup import by_beginning
from headrace.cli.jobs.moves import move, run_now
from headrace.cli.jobs.resume import resume
from headrace.cli.jobs.unknown_names import warn_of_unknown
from headrace.cli.jobs.views import as_json_value, row, show_job, show_list
from headrace.cli.jobs.watch import watch
from headrace.cli.output import Shown, complain, harmless, json_document, show_result
from headrace.cli.program import FAILED
from headrace.core.display import in_local_time, plural
from headrace.core.job.state import State
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from headrace import Headrace
    from headrace.admin import Admin, CancelReport, FlowJobInfo, JobDetail, JobSummary

T = TypeVar("T")

# Their arguments, up to 64 KiB of each, are held together.
_TOGETHER = 100
_ENDED = (State.DEAD, State.CANCELLED, State.DONE)


@click.group(cls=Noun)
def jobs() -> None:
    """Find jobs, look at them, follow them, move them, cancel them. Without a command: list.

    APP is module:attribute, for example shop:app; without it, the store of --url, $HEADRACE_URL or
    ./headrace.db is used. A first word that looks like an APP is taken for one: for an id that
    looks so, name the app with --app, or the store with --url.
    """


for command in (watch, run_now, move, resume):
    jobs.add_command(command)


@jobs.command("list")
@of_app
@queue_option
@job_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@secrets_option
@json_option
def list_(app: Headrace, limit: int, as_json: bool, **conditions: Any) -> None:
    """List jobs: running, waiting, blocked, scheduled ones, those of one --state, or all of one
    --flow.

    Jobs that are done or cancelled are listed as long as the app's keep_done says.

    Without --queue, those of all queues and groups of topics.
    """
    wanted = JobFilter(**conditions)
    warn_of_redacted_search(app, wanted.search)
    shown = Shown(row, as_json_value, limit, as_json=as_json)
    asked(app, lambda app: shown.of(_listed(admin_of(app), wanted, limit + 1)))
    shown.end(partial(show_list, wanted=wanted))
    warn_of_unknown(app, wanted.queue, None if shown.count else wanted.task)


async def _listed(admin: Admin, wanted: JobFilter, limit: int) -> AsyncGenerator[JobSummary, None]:
    if wanted.queue is None and wanted.state in _ENDED:
        for job in await admin.latest(wanted.state, limit=limit, **wanted.for_jobs):
            yield job
        return
    together = min(limit, _TOGETHER)
    for state in (None, *_ENDED) if wanted.flow and not wanted.state else (wanted.state,):
        cursor, more = "", True
        while more:
            page = await admin.jobs(
                wanted.queue, state, cursor=cursor, limit=together, **wanted.for_jobs
            )
            for job in page.jobs:
                yield job
            cursor, more = page.cursor, bool(page.cursor)


@jobs.command()
@of_job
def show(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Show one job: its state, arguments, attempts and log, and the jobs it is after in a flow."""
    info, parents = _about(app, id, lambda admin, id: _shown(admin, id, queue))
    if as_json:
        json_document({**as_json_value(info), "parents": [parent.id for parent in parents]})
    else:
        show_job(info, parents)


def _about(app: Headrace, id: str, question: Callable[[Admin, str], Awaitable[T]]) -> T:
    """The answer about one job, whose id may be cut short."""

    async def answer(app: Headrace) -> T:
        admin = admin_of(app)
        return await by_beginning(admin, id, lambda id: question(admin, id))

    return asked(app, answer)


async def _shown(
    admin: Admin, id: str, queue: str | None
) -> tuple[JobDetail, Sequence[FlowJobInfo]]:
    """The job, and those it is after in its flow."""
    info = await admin.job(id, queue)
    flow = await admin.flow(info.id, info.queue) if info.flow else None
    return info, flow.parents_of(info.id) if flow else ()


@jobs.command()
@of_job
def why(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Say why a job is not running."""
    sentence = _about(app, id, lambda admin, id: admin.why(id, queue))
    show_result(in_local_time(sentence), {"id": id, "why": sentence}, as_json=as_json)


@jobs.command()
@of_job
def log(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Print what a job wrote to its log."""
    lines = _about(app, id, lambda admin, id: admin.log(id, queue))
    if as_json:
        json_document(lines)
    else:
        for line in lines:
            click.echo(harmless(line))


@jobs.command()
@click.argument("words", nargs=-1, metavar="[APP] [ID]...")
@app_options
@queue_option
@job_options
@yes_option
@secrets_option
@json_option
def cancel(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    yes: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Cancel jobs: those that have not begun never run, running ones are asked to end.

    Choose jobs by id, or by --queue, --state, --task, --search, --since, --until and --flow;
    without --queue, in all queues and groups of topics. Asks first unless ids are given; without a
    terminal, it needs --yes.
    """
    wanted = JobFilter(**conditions)
    named = bool(url or namespace)
    app, ids = split(words, app_option, store_named=named, app_alone=bool(wanted))
    _check(app, ids, wanted)
    chosen = chosen_app(app, url, namespace)
    warn_of_redacted_search(chosen, wanted.search)
    if not ids and not yes:
        confirm("cancel", wanted.describe_jobs())
    report = acted(chosen, lambda admin: _cancelled(admin, ids, wanted))
    if as_json:
        json_document(report)
    else:
        running = f", asked {plural(report.running, 'running job')} to end"
        click.echo(
            f"cancelled {plural(report.cancelled, 'job')}{running if report.running else ''}"
        )
    found = report.cancelled or report.running or report.ended or report.logged
    warn_of_unknown(chosen, wanted.queue, None if found else wanted.task)
    _complain(report, bool(ids))


@jobs.command()
@click.argument("words", nargs=-1, metavar="[APP] ID...")
@app_options
@queue_option
@json_option
def forget(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    queue: str | None,
    as_json: bool,
) -> None:
    """Delete what is kept of jobs that are done or cancelled: history, result and log."""
    app, ids = split(words, app_option, store_named=bool(url or namespace), app_alone=False)
    if not ids:
        raise ConfigError(f"say what to forget{within(app)}: the ids of jobs that have ended")
    chosen = chosen_app(app, url, namespace)
    count = acted(chosen, lambda admin: admin.forget(ids, queue))
    show_result(f"forgot {plural(count, 'job')}", {"forgot": count}, as_json=as_json)
    if count < len(set(ids)):
        complain("nothing was kept of the others, or they have not ended")
        click.get_current_context().exit(FAILED)


def _check(app: str | None, ids: list[str], wanted: JobFilter) -> None:
    if not ids and not wanted:
        raise ConfigError(
            f"say what to cancel{within(app)}: ids, --queue, --state, --task, --search, --since, "
            "--until or --flow"
        )
    if ids and wanted.is_narrow:
        raise ConfigError(
            "give ids, or --state, --task, --search, --since, --until and --flow, not both"
        )


async def _cancelled(admin: Admin, ids: list[str], wanted: JobFilter) -> CancelReport:
    if ids:
        return await admin.cancel(ids, wanted.queue)
    return await admin.cancel(None, wanted.queue, state=wanted.state, **wanted.for_jobs)


def _complain(report: CancelReport, named: bool) -> None:
    if report.unknown:
        complain(f"not in the store (any more): {', '.join(report.unknown)}")
    if report.ended and named:
        complain(f"ended already: {', '.join(report.ended)}")
    if report.logged:
        left = plural(len(report.logged), "event")
        complain(f"{left} stayed in the log of a topic, which all groups share")
    if report.unknown or (report.ended and named):
        click.get_current_context().exit(FAILED)
