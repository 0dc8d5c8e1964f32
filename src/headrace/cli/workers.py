"""`headrace workers`: list running workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import Noun, asked, json_option, of_app
from headrace.cli.output import moment, show_table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import WorkerInfo

_HEADINGS = ("worker", "host", "pid", "running", "slots", "queues", "started", "last beat")


@click.group(cls=Noun)
def workers() -> None:
    """Show the workers that are running. Without a command: list."""


@workers.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show running workers: where, since when, and on which queues.

    A worker that died is listed for up to one lease.
    """
    found = asked(app, lambda app: app.admin.workers())
    show_table(found, _HEADINGS, _row, nothing="no workers are running", as_json=as_json)


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
