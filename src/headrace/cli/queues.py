"""`headrace queues`: what is in the queues; stop and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.asking import Noun, asked, json_option, only, split
from headrace.cli.loading import app_options, chosen_app, one_app
from headrace.cli.output import harmless, json_document, table

if TYPE_CHECKING:
    from headrace.admin import QueueInfo

_HEADINGS = ("queue", "waiting", "running", "scheduled", "blocked", "dead", "paused")


@click.group(cls=Noun)
def queues() -> None:
    """Show the queues, pause and resume them. Without a command: list."""


@queues.command("list")
@click.argument("app", required=False)
@app_options
@json_option
def list_(
    app: str | None, app_option: str | None, url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Show the queues, how many of their jobs are in each state, and what is paused."""
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    found = asked(chosen, lambda app: app.admin.queues())
    if as_json:
        json_document(found)
    elif found:
        table(_HEADINGS, [_row(queue) for queue in found])
    else:
        click.echo("no queues yet: nothing was ever sent")


_task = click.option("--task", metavar="NAME", help="Only this task in the queue.")


@queues.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] QUEUE")
@app_options
@_task
@json_option
def pause(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Have no more jobs of a queue started, until resume. What is running goes on."""
    app, names = split(words, app_option)
    queue = only("queue", names)
    chosen = chosen_app(app, url, namespace)
    asked(chosen, lambda app: app.admin.pause(queue, task))
    _tell("paused", queue, task, as_json)


@queues.command()
@click.argument("words", nargs=-1, required=True, metavar="[APP] QUEUE")
@app_options
@_task
@json_option
def resume(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Undo pause: of a queue, or of one task in it."""
    app, names = split(words, app_option)
    queue = only("queue", names)
    chosen = chosen_app(app, url, namespace)
    asked(chosen, lambda app: app.admin.resume(queue, task))
    _tell("resumed", queue, task, as_json)


def _tell(done: str, queue: str, task: str | None, as_json: bool) -> None:
    if as_json:
        json_document({done: {"queue": queue, "task": task}})
    else:
        what = f"queue {queue}" if task is None else f"task {task} in queue {queue}"
        click.echo(harmless(f"{done} {what}"))


def _row(queue: QueueInfo) -> tuple[str | int, ...]:
    counts = (queue.waiting, queue.running, queue.scheduled, queue.blocked, queue.dead)
    paused = "all" if queue.paused else ", ".join(queue.paused_tasks)
    return queue.name, *counts, paused
