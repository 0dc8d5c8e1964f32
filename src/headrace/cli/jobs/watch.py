"""`headrace jobs watch`: events of jobs, as they happen."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from headrace.admin.jobs.gate_text import gate_text
from headrace.cli.app_command import admin_of, only, secrets_option, split
from headrace.cli.app_loader import app_options, chosen_app
from headrace.cli.filters import queue_option
from headrace.cli.logs import without_risks
from headrace.cli.output import fitting, harmless, moment, show_attempt
from headrace.core.display import length_text
from headrace.core.job.state import State
from headrace.core.queue_names import group_queue, group_source
from headrace.errors import ConfigError, JobNotFound

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.admin import JobEvent
    from headrace.client.watch import JobUpdate

_NOW, _OLDEST = "$", ""
_LOOK_FOR_QUEUES = 2.0
_BAR = 24


@click.command()
@click.argument("words", nargs=-1, metavar="[APP] [ID]")
@app_options
@queue_option
@click.option(
    "--after", metavar="CURSOR", help="Go on after this event of --queue; '' for all that are kept."
)
@secrets_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def watch(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    queue: str | None,
    after: str | None,
    as_json: bool,
) -> None:
    """Print what happens to jobs, one line each, until Ctrl-C. With an ID, print the changes of
    that job, its progress and its log until it ends; the exit code is 1 unless it is done.

    Each event has a cursor (see --json), from which another watch can go on without missing any.
    """
    if after and queue is None:
        raise ConfigError("--after is a position in the events of one queue: name it with --queue")
    app, named = split(words, app_option, store_named=bool(url or namespace), app_alone=True)
    chosen = chosen_app(app, url, namespace)
    if named and (queue is not None or after is not None):
        raise ConfigError("an id names one job: leave --queue and --after out")
    # Ctrl-C is how watching ends.
    with without_risks(), suppress(KeyboardInterrupt):
        if named:
            followed = _follow_job(chosen, only("id", named, app), as_json=as_json)
            click.get_current_context().exit(0 if asyncio.run(followed) else 1)
        watcher = _Watcher(chosen, as_json)
        asyncio.run(watcher.run(queue, _NOW if after is None else after))


class _Watcher:
    """Prints the events of one queue, or of all queues, later ones included."""

    def __init__(self, app: Headrace, as_json: bool) -> None:
        self._app = app
        self._as_json = as_json
        self._width = 0
        """Of the longest name of a queue so far."""

    async def run(self, queue: str | None, after: str) -> None:
        async with self._app:
            if queue is not None:
                await self._follow(queue, after)
            else:
                await self._follow_all(after)

    async def _follow_all(self, after: str) -> None:
        followed: set[str] = set()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    names = await self._names()
                    for name in sorted(names - followed):
                        group.create_task(self._follow(name, after))
                    followed |= names
                    # All events of a new queue are new.
                    after = _OLDEST
                    await asyncio.sleep(_LOOK_FOR_QUEUES)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _names(self) -> set[str]:
        """Of all queues and groups."""
        admin = self._app.admin
        queues = {info.name for info in await admin.queues()}
        groups = [group_source(counts.name) for counts in await admin.group_counts()]
        return queues | {group_queue(each.topic, each.group) for each in groups if each}

    async def _follow(self, queue: str, after: str) -> None:
        async with aclosing(admin_of(self._app).events(queue, after, follow=True)) as events:
            async for event in events:
                self._width = max(self._width, len(event.queue))
                line = _json_line(event) if self._as_json else fitting(_line(event, self._width))
                click.echo(line)


def _json_line(event: JobEvent) -> str:
    """ASCII only, so that nothing in it can steer a terminal."""
    value = asdict(event)
    value["duration"] = event.duration and event.duration.total_seconds()
    return json.dumps(msgspec.to_builtins(value))


def _line(event: JobEvent, width: int) -> str:
    if event.kind == "lost":
        return f"{moment(event.time)}  {event.queue}: some events are not kept any more"
    took = length_text(event.duration.total_seconds()) if event.duration else ""
    attempt = f"attempt {event.attempt}" if event.attempt else ""
    queue, detail = event.queue.ljust(width), event.detail
    if event.kind in ("retry", "deferred") and detail.isdigit():
        detail = f"next try in {length_text(int(detail) / 1000)}"
    elif event.kind == "stalled":
        detail = f"taken over after {detail} without an outcome"
    elif event.kind in ("blocked", "held") and detail:
        detail = f"waits for {gate_text(detail, None, event.task or None)}"
    words = (queue, f"{event.kind:<9}", event.id, event.task, attempt, took, detail)
    return harmless("  ".join((moment(event.time), *(word for word in words if word))))


async def _follow_job(app: Headrace, id: str, *, as_json: bool) -> bool:
    """Print each change of a job until it has ended, and the last error if it is dead; returns
    whether it is done."""
    state, first = State.WAITING, True
    async with app, aclosing(admin_of(app).watch(id)) as updates:
        async for update in updates:
            state = update.state
            at = await _ended(app, id) if first and state.final else datetime.now(UTC)
            first = False
            for line in _json_lines(update) if as_json else _lines(update, at):
                click.echo(line)
        if state is State.DEAD and not as_json:
            await _show_end(app, id)
    return state is State.DONE


async def _ended(app: Headrace, id: str) -> datetime:
    """When a job ended that had ended before it was watched; now, if that is not kept."""
    try:
        ended = (await admin_of(app).job(id)).ended
    except JobNotFound:
        ended = None
    return ended or datetime.now(UTC)


async def _show_end(app: Headrace, id: str) -> None:
    try:
        job = await admin_of(app).job(id)
    except JobNotFound:
        return
    if job.reason:
        click.echo(f"dead: {harmless(job.reason)}")
    if job.attempts:
        show_attempt(job.attempts[-1])


def _lines(update: JobUpdate, at: datetime) -> list[str]:
    words = [moment(at), f"{update.state:<9}"]
    if update.progress is not None:
        filled = round(max(0.0, min(update.progress.fraction, 1.0)) * _BAR)
        words += ["█" * filled + "░" * (_BAR - filled), f"{update.progress.fraction:4.0%}"]
        words += [update.progress.text] if update.progress.text else []
    return [
        fitting(harmless("  ".join(words))),
        *(f"  | {harmless(each)}" for each in update.lines),
    ]


def _json_lines(update: JobUpdate) -> list[str]:
    return [json.dumps(msgspec.to_builtins(update))]
