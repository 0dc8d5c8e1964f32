"""`headrace demo`: what Headrace does, shown in ten seconds, without a server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from headrace.cli.demo_crew import Crew, WorkerEnded
from headrace.cli.stage import Look, Stage
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.demo_show import Tally

_SETTINGS = {
    # Short, so that the jobs of a killed worker are taken over while one looks on;
    "HEADRACE_LEASE": "1.5",
    # and a busy machine may let so short a lease run out without any crash.
    "HEADRACE_CRASH_LIMIT": "10",
}
_NEXT = {
    "in shop.py": "app = Headrace(), and @app.task above a function: add(a, b)",
    "in a terminal": "headrace worker shop:app",
    "in your code": "job = await add.enqueue(2, 3); await job.result()",
}


@click.command()
def demo() -> None:
    """Show what Headrace does, in about ten seconds.

    Runs worker processes on an SQLite file in a temporary directory and leaves nothing behind. It
    checks what it shows: the exit code is 0 only if all of it happened.
    """
    with Stage(Look.of_stdout()) as stage, TemporaryDirectory(prefix="headrace-demo-") as home:
        _move_to(home)
        try:
            asyncio.run(_perform(stage, Path(home)))
        except asyncio.CancelledError:
            raise click.Abort from None
    sys.exit(1 if stage.failures else 0)


def _move_to(home: str) -> None:
    """Let the app of this process, and of the workers that inherit its environment, live in `home`,
    whatever settings there are for other apps."""
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        del os.environ[name]
    os.environ.update(_SETTINGS, HEADRACE_URL=f"sqlite:///{home}/demo.db")


async def _perform(stage: Stage, home: Path) -> None:
    # Only now: the app reads its settings when it is imported.
    from headrace.cli.demo_acts import play
    from headrace.cli.demo_show import Show
    from headrace.cli.demo_tasks import app

    _end_cleanly_when_told()
    began = time.monotonic()
    stage.heading("headrace demo", "an SQLite file and worker processes, no server")
    async with Crew(home) as crew, app:
        show = Show(stage, crew)
        try:
            await play(show)
        except (HeadraceError, WorkerEnded) as error:
            stage.check(False, f"the demo broke off: {error}")
        if stage.failures:
            _explain(stage, crew)
        else:
            _sum_up(stage, show.tally, time.monotonic() - began)


def _end_cleanly_when_told() -> None:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that no worker process is left behind."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)


def _sum_up(stage: Stage, tally: Tally, seconds: float) -> None:
    stage.gap()
    stage.remark(f"All of it happened, in {seconds:.1f} seconds.", colour="green", bold=True)
    stage.remark(
        f"{tally.jobs} jobs, {tally.events} events, {tally.retries} retries, "
        f"{tally.replayed} replayed, {tally.taken_over} taken over from a killed worker, 0 lost"
    )
    stage.gap()
    stage.remark("Your turn:", bold=True)
    stage.table(_NEXT)
    stage.gap()


def _explain(stage: Stage, crew: Crew) -> None:
    stage.gap()
    count = len(stage.failures)
    what = "1 check" if count == 1 else f"{count} checks"
    stage.remark(f"{what} failed:", colour="red", bold=True)
    for failure in stage.failures:
        stage.remark(failure, colour="red")
    if words := crew.last_words():
        stage.gap()
        stage.remark("The last lines of the workers' log:", bold=True)
        for line in words:
            stage.remark(line)
