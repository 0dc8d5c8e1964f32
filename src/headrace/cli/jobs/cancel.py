"""`headrace jobs cancel`: end jobs, whatever state they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.admin import JobFilter
from headrace.cli.app_command import (
    acted,
    confirm,
    json_option,
    say_what_is_not_searched,
    secrets_option,
    split,
    within,
    yes_option,
)
from headrace.cli.app_loader import app_options, chosen_app
from headrace.cli.filters import job_options, queue_option
from headrace.cli.output import complain, json_document
from headrace.cli.program import FAILED
from headrace.core.display import plural
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.admin import Admin, CancelReport


@click.command()
@click.argument("words", nargs=-1, metavar="[APP] [ID]...")
@app_options
@queue_option
@job_options
@click.option("--flow", metavar="ID", help="Only of the flow that ends with this job.")
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
    """End jobs: what has not begun never does, what runs is asked to end.

    Jobs are named by id, or chosen by --queue, --state, --task, --search, --since, --until and
    --flow; without --queue, in all queues and groups of topics. Unless ids are given it asks first.
    Where there is no terminal to ask in, it needs --yes.
    """
    wanted = JobFilter(**conditions)
    named = bool(url or namespace)
    app, ids = split(words, app_option, store_named=named, app_alone=bool(wanted))
    _check(app, ids, wanted)
    chosen = chosen_app(app, url, namespace)
    say_what_is_not_searched(chosen, wanted.search)
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
    _complain(report, bool(ids))


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
        complain(f"{left} stayed in the log of a topic, out of which no group can take any")
    if report.unknown or (report.ended and named):
        click.get_current_context().exit(FAILED)
