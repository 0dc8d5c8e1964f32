"""`headrace jobs watch ID`: follows one job to its end."""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from headrace.cli.asking import admin_of
from headrace.cli.output import fitting, harmless, moment, show_attempt
from headrace.core.job import State
from headrace.errors import JobNotFound

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.client.watch import JobUpdate

_BAR = 24


async def follow_job(app: Headrace, id: str, *, as_json: bool) -> bool:
    """Print each change of a job until it has ended; whether it ended well. Of one that is dead the
    last error is shown."""
    state = State.WAITING
    async with app, aclosing(admin_of(app).watch(id)) as updates:
        async for update in updates:
            state = update.state
            for line in _json_lines(update) if as_json else _lines(update):
                click.echo(line)
        if state is State.DEAD and not as_json:
            await _show_end(app, id)
    return state is State.DONE


async def _show_end(app: Headrace, id: str) -> None:
    try:
        job = await admin_of(app).job(id)
    except JobNotFound:
        return
    if job.reason:
        click.echo(f"dead: {harmless(job.reason)}")
    if job.attempts:
        show_attempt(job.attempts[-1])


def _lines(update: JobUpdate) -> list[str]:
    words = [moment(datetime.now(UTC)), f"{update.state:<9}"]
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
