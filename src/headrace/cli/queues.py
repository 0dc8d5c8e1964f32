"""`headrace queues`: list, pause, resume and remove queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import (
    Noun,
    acted,
    asked,
    confirm,
    json_option,
    of_app,
    of_words,
    yes_option,
)
from headrace.cli.output import show_result, show_table
from headrace.core import bounds as limits
from headrace.core.display import length_text, meant
from headrace.errors import QueueNotFound

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import QueueInfo

_HEADINGS = ("queue", "waiting", "oldest", "running", "scheduled", "blocked", "dead", "paused")


@click.group(cls=Noun)
def queues() -> None:
    """Show the queues, pause, resume and remove them. Without a command: list."""


@queues.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show the queues, how many jobs are in each state, how long the oldest has waited, and what is
    paused."""
    found = asked(app, lambda app: app.admin.queues())
    nothing = "no queues yet: nothing has been sent"
    show_table(found, _HEADINGS, _row, nothing=nothing, as_json=as_json)


_task = click.option("--task", metavar="NAME", help="Only this task in the queue.")


@queues.command()
@of_words("queue")
@_task
@click.option("--force", is_flag=True, help="Also a queue that is not known yet.")
@json_option
def pause(app: Headrace, queue: str, task: str | None, force: bool, as_json: bool) -> None:
    """Start no more jobs of a queue, until resume. Running jobs go on."""
    if not force:
        _refuse_unknown(app, queue, task, "--force pauses it before there is one")
    acted(app, lambda admin: admin.pause(queue, task))
    _show("paused", queue, task, as_json)


@queues.command()
@of_words("queue")
@_task
@json_option
def resume(app: Headrace, queue: str, task: str | None, as_json: bool) -> None:
    """Resume a queue, or one task in it."""
    _refuse_unknown(app, queue, task)
    acted(app, lambda admin: admin.resume(queue, task))
    _show("resumed", queue, task, as_json)


@queues.command()
@of_words("queue")
@click.option("--force", is_flag=True, help="Remove it with all jobs that it holds.")
@yes_option
@json_option
def remove(app: Headrace, queue: str, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a queue that nothing is sent to any more.

    With --force it asks first; without a terminal, it needs --yes.
    """
    if force and not yes:
        confirm("remove", f"queue {queue!r}, and all jobs that it holds")
    if not acted(app, lambda admin: admin.remove_queue(queue, force)):
        raise QueueNotFound(queue)
    _show("removed", queue, None, as_json)


def _refuse_unknown(app: Headrace, queue: str, task: str | None, way_out: str = "") -> None:
    """A misspelt name must not look as if the right queue had stopped."""
    limits.check_name("queue", queue)
    if task is not None:
        limits.check_name("task", task)
    names = asked(app, lambda app: app.admin.names_like(queue))
    if names is not None:
        hint = meant(queue, names)
        gap = (" " if hint else "; ") if way_out else ""
        raise QueueNotFound(queue, f"{hint}{gap}{way_out}")


def _show(done: str, queue: str, task: str | None, as_json: bool) -> None:
    what = f"queue {queue}" if task is None else f"task {task} in queue {queue}"
    show_result(f"{done} {what}", {done: {"queue": queue, "task": task}}, as_json=as_json)


def _row(queue: QueueInfo) -> tuple[str | int, ...]:
    oldest = "" if queue.age is None else length_text(queue.age)
    bound = f"{queue.running} / {queue.concurrency}" if queue.concurrency else queue.running
    counts = (bound, queue.scheduled, queue.blocked, queue.dead)
    paused = [*(["all"] if queue.paused else []), *queue.paused_tasks]
    return queue.name, queue.waiting, oldest, *counts, ", ".join(paused)
