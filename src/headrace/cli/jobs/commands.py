"""`headrace jobs`: find jobs, look at them, follow them, cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.admin import JobFilter
from headrace.cli.app_command import (
    admin_of,
    asked,
    json_option,
    of_app,
    of_one,
    say_what_is_not_searched,
    secrets_option,
)
from headrace.cli.filters import job_options, queue_option
from headrace.cli.jobs.cancel import cancel
from headrace.cli.jobs.views import as_json_value, show_job, show_list
from headrace.cli.jobs.watch import watch
from headrace.cli.output import harmless, json_document, show_first

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import JobSummary


@click.group(no_args_is_help=False)
def jobs() -> None:
    """Find jobs, look at them, follow them, cancel them.

    APP is module:attribute, for example shop:app; without it, the store of --url, $HEADRACE_URL or
    ./headrace.db is meant. If the first word looks like an APP, it is one; an id that looks like
    that is safe behind --app, and alone with --url.
    """


jobs.add_command(cancel)
jobs.add_command(watch)


@jobs.command("list")
@of_app
@queue_option
@job_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@secrets_option
@json_option
def list_(app: Headrace, limit: int, as_json: bool, **conditions: Any) -> None:
    """List jobs: running, waiting, blocked, scheduled ones, or those of one --state.

    Without --queue, those of all queues and groups of topics.
    """
    wanted = JobFilter(**conditions)
    say_what_is_not_searched(app, wanted.search)
    found = asked(app, lambda app: _listed(app, wanted, limit + 1))
    show_first(found, limit, show_list, as_json_value, as_json=as_json)


async def _listed(app: Headrace, wanted: JobFilter, limit: int) -> list[JobSummary]:
    admin = admin_of(app)
    found: list[JobSummary] = []
    cursor, more = "", True
    while more and len(found) < limit:
        left = limit - len(found)
        page = await admin.jobs(
            wanted.queue, wanted.state, cursor=cursor, limit=left, **wanted.for_jobs
        )
        found += page.jobs
        cursor, more = page.cursor, bool(page.cursor)
    return found[:limit]


@jobs.command()
@of_one("id")
@queue_option
@secrets_option
@json_option
def show(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Show all that is known of one job: its state, arguments, attempts and log."""
    info = asked(app, lambda app: admin_of(app).job(id, queue))
    if as_json:
        json_document(as_json_value(info))
    else:
        show_job(info)


@jobs.command()
@of_one("id")
@queue_option
@secrets_option
@json_option
def why(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Say why a job is not running."""
    sentence = asked(app, lambda app: admin_of(app).why(id, queue))
    if as_json:
        json_document({"id": id, "why": sentence})
    else:
        click.echo(harmless(sentence))


@jobs.command()
@of_one("id")
@queue_option
@secrets_option
@json_option
def log(app: Headrace, id: str, queue: str | None, as_json: bool) -> None:
    """Print what a job wrote to its log."""
    lines = asked(app, lambda app: admin_of(app).log(id, queue))
    if as_json:
        json_document(lines)
    else:
        for line in lines:
            click.echo(harmless(line))
