"""Runs the demo from beginning to end, in a temporary directory."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from headrace.demo.stage import Look, Stage
from headrace.demo.workers import DemoWorkers, WorkerEnded
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.demo.workers import ShowCounts

_SETTINGS = {
    # Short, so that the jobs of a killed worker are taken over while one looks on;
    "HEADRACE_LEASE": "1.5",
    # and a busy machine may let so short a lease run out without any crash.
    "HEADRACE_CRASH_LIMIT": "10",
}
_NEXT = {
    "in shop.py": "app = Headrace(), and @app.task above a function: add(a, b)",
    "in a terminal": "headrace dev shop:app, a worker and the dashboard in one",
    "in your code": "job = await add.enqueue(2, 3); await job.result()",
    "in production": "headrace worker shop:app, headrace dashboard shop:app",
    "over ssh": "headrace top shop:app",
}


def perform() -> bool:
    """Show all acts; returns whether all of their checks held. Leaves nothing behind."""
    with Stage(Look.of_stdout()) as stage, TemporaryDirectory(prefix="headrace-demo-") as home:
        _move_to(home)
        try:
            asyncio.run(_play(stage, Path(home)))
        except asyncio.CancelledError:
            raise click.Abort from None
    return not stage.failures


def _move_to(home: str) -> None:
    """Put the store of this process and of its workers into `home`, and drop settings that other
    apps have."""
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        del os.environ[name]
    os.environ.update(_SETTINGS, HEADRACE_URL=f"sqlite:///{home}/demo.db")


async def _play(stage: Stage, home: Path) -> None:
    # Only now: the app reads its settings when it is imported.
    from headrace.demo.acts import play
    from headrace.demo.shop import app
    from headrace.demo.workers import Show

    _end_cleanly_when_told()
    began = time.monotonic()
    stage.heading("headrace demo", "an SQLite file and worker processes, no server")
    async with DemoWorkers(home) as workers, app:
        show = Show(stage, workers)
        try:
            await play(show)
        except (HeadraceError, WorkerEnded) as error:
            stage.check(False, f"the demo broke off: {error}")
        if stage.failures:
            _explain(stage, workers)
        else:
            _sum_up(stage, show.counts, time.monotonic() - began)


def _end_cleanly_when_told() -> None:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that no worker process is left behind."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)


def _sum_up(stage: Stage, counts: ShowCounts, seconds: float) -> None:
    stage.gap()
    stage.remark(f"All of it happened, in {seconds:.1f} seconds.", colour="green", bold=True)
    stage.remark(
        f"{counts.jobs} jobs, {counts.events} events, {counts.retries} retries, "
        f"{counts.replayed} replayed, {counts.taken_over} taken over from a killed worker, 0 lost"
    )
    stage.gap()
    stage.remark("Your turn:", bold=True)
    stage.table(_NEXT)
    stage.gap()


def _explain(stage: Stage, workers: DemoWorkers) -> None:
    stage.gap()
    count = len(stage.failures)
    what = "1 check" if count == 1 else f"{count} checks"
    stage.remark(f"{what} failed:", colour="red", bold=True)
    for failure in stage.failures:
        stage.remark(failure, colour="red")
    if words := workers.last_words():
        stage.gap()
        stage.remark("The last lines of the workers' log:", bold=True)
        for line in words:
            stage.remark(line)
