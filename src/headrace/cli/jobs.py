"""`headrace jobs`: find jobs, look at them, follow them, cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.asking import asked, json_option, only, split
from headrace.cli.job_views import as_json_value, show_job, show_list
from headrace.cli.jobs_cancel import cancel
from headrace.cli.jobs_watch import watch
from headrace.cli.loading import app_options, chosen_app, one_app
from headrace.cli.output import harmless, json_document
from headrace.cli.selection import job_options, queue_option

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import JobSummary

_PAGE = 100


@click.group(no_args_is_help=False)
def jobs() -> None:
    """Find jobs, look at them, follow them, cancel them.

    APP is module:attribute, for example shop:app; without it, the store of --url, $HEADRACE_URL or
    ./headrace.db is meant. If the first of several words looks like an APP, it is one; an id that
    looks like that is safe behind --app.
    """


jobs.add_command(cancel)
jobs.add_command(watch)


@jobs.command("list")
@click.argument("app", required=False)
@app_options
@queue_option
@job_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@json_option
def list_(
    app: str | None,
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    queue: str | None,
    limit: int,
    as_json: bool,
    **conditions: Any,
) -> None:
    """List jobs: running, waiting, blocked, scheduled ones, or those of one --state."""
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    # One more than is shown tells whether there are more.
    found = asked(chosen, lambda app: _listed(app, queue, conditions, limit + 1))
    if as_json:
        json_document([as_json_value(job) for job in found[:limit]])
        return
    show_list(found[:limit])
    if len(found) > limit:
        click.echo(f"(there are more than {limit}: see --limit)", err=True)


async def _listed(
    app: Headrace, queue: str | None, conditions: dict[str, Any], limit: int
) -> list[JobSummary]:
    found: list[JobSummary] = []
    names = [queue] if queue else [info.name for info in await app.admin.queues()]
    for name in names:
        cursor, more = "", True
        while more and len(found) < limit:
            page = await app.admin.jobs(name, **conditions, cursor=cursor, limit=_PAGE)
            found += page.jobs
            cursor, more = page.cursor, bool(page.cursor)
    return found[:limit]


@jobs.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] ID")
@app_options
@json_option
def show(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Show all that is known of one job: its state, arguments, attempts and log."""
    app, ids = split(words, app_option)
    id = only("id", ids)
    info = asked(chosen_app(app, url, namespace), lambda app: app.admin.job(id))
    if as_json:
        json_document(as_json_value(info))
    else:
        show_job(info)


@jobs.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] ID")
@app_options
@json_option
def why(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Say why a job is not running."""
    app, ids = split(words, app_option)
    id = only("id", ids)
    sentence = asked(chosen_app(app, url, namespace), lambda app: app.admin.why(id))
    if as_json:
        json_document({"id": id, "why": sentence})
    else:
        click.echo(harmless(sentence))


@jobs.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] ID")
@app_options
@json_option
def log(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Print what a job wrote to its log."""
    app, ids = split(words, app_option)
    id = only("id", ids)
    lines = asked(chosen_app(app, url, namespace), lambda app: app.admin.log(id))
    if as_json:
        json_document(lines)
    else:
        for line in lines:
            click.echo(harmless(line))
