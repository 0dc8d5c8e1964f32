"""`headrace queues`: what is in the queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from headrace.cli.loading import app_options, chosen_app, one_app
from headrace.cli.output import json_document, table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import QueueInfo


@click.command()
@click.argument("app", required=False)
@app_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
def queues(
    app: str | None, app_option: str | None, url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Show the queues, and how many of their jobs are waiting, running, scheduled and dead."""
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    found = asyncio.run(_asked(chosen))
    if as_json:
        json_document(found)
    elif found:
        rows = [(q.name, q.waiting, q.running, q.scheduled, q.dead) for q in found]
        table(("queue", "waiting", "running", "scheduled", "dead"), rows)
    else:
        click.echo("no queues yet: nothing was ever sent")


async def _asked(app: Headrace) -> list[QueueInfo]:
    async with app:
        return await app.admin.queues()
