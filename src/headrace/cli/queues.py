"""`headrace queues`: what is in the queues; stop and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.admin.why import span
from headrace.cli.asking import Noun, acted, asked, json_option, of_app, of_one
from headrace.cli.output import harmless, json_document, show_table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import QueueInfo

_HEADINGS = ("queue", "waiting", "oldest", "running", "scheduled", "blocked", "dead", "paused")


@click.group(cls=Noun)
def queues() -> None:
    """Show the queues, pause and resume them. Without a command: list."""


@queues.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show the queues, how many of their jobs are in each state, for how long the oldest has
    waited, and what is paused."""
    found = asked(app, lambda app: app.admin.queues())
    nothing = "no queues yet: nothing was ever sent"
    show_table(found, _HEADINGS, _row, nothing=nothing, as_json=as_json)


_task = click.option("--task", metavar="NAME", help="Only this task in the queue.")


@queues.command()
@of_one("queue")
@_task
@json_option
def pause(app: Headrace, queue: str, task: str | None, as_json: bool) -> None:
    """Have no more jobs of a queue started, until resume. What is running goes on."""
    acted(app, lambda admin: admin.pause(queue, task))
    _tell("paused", queue, task, as_json)


@queues.command()
@of_one("queue")
@_task
@json_option
def resume(app: Headrace, queue: str, task: str | None, as_json: bool) -> None:
    """Undo pause: of a queue, or of one task in it."""
    acted(app, lambda admin: admin.resume(queue, task))
    _tell("resumed", queue, task, as_json)


def _tell(done: str, queue: str, task: str | None, as_json: bool) -> None:
    if as_json:
        json_document({done: {"queue": queue, "task": task}})
    else:
        what = f"queue {queue}" if task is None else f"task {task} in queue {queue}"
        click.echo(harmless(f"{done} {what}"))


def _row(queue: QueueInfo) -> tuple[str | int, ...]:
    oldest = "" if queue.age is None else span(int(queue.age * 1000))
    counts = (queue.running, queue.scheduled, queue.blocked, queue.dead)
    paused = [*(["all"] if queue.paused else []), *queue.paused_tasks]
    return queue.name, queue.waiting, oldest, *counts, ", ".join(paused)
