"""`headrace jobs cancel`: end jobs, whatever state they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

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
from headrace.cli.filters import described, job_options, queue_option
from headrace.cli.output import complain, json_document
from headrace.cli.program import FAILED
from headrace.core.plural import plural
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
    queue: str | None,
    yes: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    """End jobs: what has not begun never does, what runs is asked to end.

    Named by id, or all that --queue, --state, --task, --search, --since, --until and --flow leave;
    no events, unless --queue names their group. Unless ids are given it asks first; where there is
    no terminal to ask in, it needs --yes.
    """
    given = {name: value for name, value in conditions.items() if value is not None}
    app, ids = split(
        words,
        app_option,
        store_named=bool(url or namespace),
        app_alone=bool(given) or queue is not None,
    )
    _check(app, ids, queue, given)
    chosen = chosen_app(app, url, namespace)
    say_what_is_not_searched(chosen, given.get("search"))
    if not ids and not yes:
        confirm("cancel", described("all jobs", queue=queue, **given))
    report = acted(chosen, lambda admin: _cancelled(admin, ids, queue, given))
    if as_json:
        json_document(report)
    else:
        running = f", asked {plural(report.running, 'running job')} to end"
        click.echo(
            f"cancelled {plural(report.cancelled, 'job')}{running if report.running else ''}"
        )
    _complain(report, bool(ids))


def _check(app: str | None, ids: list[str], queue: str | None, given: dict[str, Any]) -> None:
    if not ids and queue is None and not given:
        raise ConfigError(
            f"say what to cancel{within(app)}: ids, --queue, --state, --task, --search, --since, "
            "--until or --flow"
        )
    if ids and given:
        raise ConfigError(
            "give ids, or --state, --task, --search, --since, --until and --flow, not both"
        )


async def _cancelled(
    admin: Admin, ids: list[str], queue: str | None, given: dict[str, Any]
) -> CancelReport:
    return await admin.cancel(ids, queue) if ids else await admin.cancel(None, queue, **given)


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
