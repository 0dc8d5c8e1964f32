"""`headrace workers`: list running workers, and stop them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import Noun, acted, asked, json_option, of_app, of_words
from headrace.cli.output import moment, show_result, show_table
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import WorkerInfo

_HEADINGS = ("worker", "host", "pid", "running", "slots", "queues", "started", "last beat")


@click.group(cls=Noun)
def workers() -> None:
    """Show the workers that are running, and stop them. Without a command: list."""


@workers.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show running workers: where, since when, and on which queues.

    A worker that died is listed for up to one lease.
    """
    found = asked(app, lambda app: app.admin.workers())
    show_table(found, _HEADINGS, _row, nothing="no workers are running", as_json=as_json)


@workers.command()
@of_words("name")
@click.option("--drain", type=float, metavar="SECONDS", help="How long running jobs have.")
@click.option("--wait", is_flag=True, help="Let running jobs take as long as they need.")
@json_option
def stop(app: Headrace, name: str, drain: float | None, wait: bool, as_json: bool) -> None:
    """Ask a worker to take no more jobs, and to end when its running jobs have.

    They have as long as the worker was started with, --drain seconds, or with --wait as long as
    they need. With --drain 0 they are cancelled at once, and go back to their queues.
    """
    if wait and drain is not None:
        raise ConfigError("give --drain or --wait, not both")
    acted(app, lambda admin: admin.stop_worker(name, True if wait else drain))
    show_result(f"asked worker {name} to stop", {"stopping": name}, as_json=as_json)


def _row(worker: WorkerInfo) -> tuple[str | int, ...]:
    return (
        worker.name,
        worker.host,
        worker.pid,
        worker.running,
        worker.concurrency,
        _queues(worker),
        moment(worker.started),
        f"{moment(worker.last_beat)}{' (stopping)' if worker.stopping else ''}",
    )


def _queues(worker: WorkerInfo) -> str:
    """As `headrace worker -Q` takes them."""
    alike = len(set(worker.queues.values())) == 1
    weights = [f"{name}={weight}" for name, weight in worker.queues.items()]
    names = ",".join(worker.queues if alike or worker.strict else weights)
    return f"{names} (strict)" if worker.strict else names
