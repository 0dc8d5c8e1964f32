"""`headrace workers`: who is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.asking import Noun, asked, json_option
from headrace.cli.loading import app_options, chosen_app, one_app
from headrace.cli.output import json_document, moment, table

if TYPE_CHECKING:
    from headrace.admin import WorkerInfo

_HEADINGS = ("worker", "host", "pid", "running", "slots", "queues", "started", "last beat")


@click.group(cls=Noun)
def workers() -> None:
    """Show the workers that are running. Without a command: list."""


@workers.command("list")
@click.argument("app", required=False)
@app_options
@json_option
def list_(
    app: str | None, app_option: str | None, url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Show who is running, where, since when, and on which queues.

    A worker that died is listed for up to one lease.
    """
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    found = asked(chosen, lambda app: app.admin.workers())
    if as_json:
        json_document(found)
    elif found:
        table(_HEADINGS, [_row(worker) for worker in found])
    else:
        click.echo("no workers are running")


def _row(worker: WorkerInfo) -> tuple[str | int, ...]:
    return (
        worker.name,
        worker.host,
        worker.pid,
        worker.running,
        worker.concurrency,
        _queues(worker),
        moment(worker.started),
        moment(worker.last_beat),
    )


def _queues(worker: WorkerInfo) -> str:
    """As `headrace worker -Q` takes them."""
    alike = len(set(worker.queues.values())) == 1
    weights = [f"{name}={weight}" for name, weight in worker.queues.items()]
    names = ",".join(worker.queues if alike or worker.strict else weights)
    return f"{names} (strict)" if worker.strict else names
