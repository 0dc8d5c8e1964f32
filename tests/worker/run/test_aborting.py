"""A worker whose `run` is cancelled from outside loses nothing, its tally included."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Headrace, State
from headrace.worker.worker import Worker


class Held:
    """A worker that runs one job, which ends when it is let go."""

    def __init__(self, app: Headrace, drain: float) -> None:
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

        @app.task
        async def hold() -> None:
            self.entered.set()
            await self.go.wait()

        self.task = hold
        self.worker: Worker = app.worker(drain=drain)

    async def cancelled(self) -> asyncio.Task[object]:
        self.job = await self.task.enqueue()
        running: asyncio.Task[object] = asyncio.create_task(self.worker.run())
        await asyncio.wait_for(self.entered.wait(), 30)
        running.cancel()
        # Until it is on its way: what comes next meets a worker that stops.
        await asyncio.sleep(0)
        return running


async def test_what_is_cut_short_is_handed_back_and_counted(app: Headrace) -> None:
    held = Held(app, drain=0.05)
    running = await held.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await held.job.status() is State.WAITING
    assert held.worker.outcome is not None
    assert held.worker.outcome.timed_out
    assert held.worker.outcome.exit_code == 3
    assert await app.admin.workers() == []


async def test_a_job_that_ends_within_the_drain_is_settled(app: Headrace) -> None:
    held = Held(app, drain=600)
    running = await held.cancelled()
    held.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await held.job.status() is State.DONE
    assert held.worker.outcome is not None
    assert held.worker.outcome.exit_code == 0


async def test_who_cancels_again_does_not_wait_for_the_drain(app: Headrace) -> None:
    held = Held(app, drain=600)
    running = await held.cancelled()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await held.job.status() is State.WAITING
    assert held.worker.outcome is not None
    assert held.worker.outcome.timed_out


async def test_a_worker_beside_other_code_ends_as_well_when_that_is_cancelled(
    app: Headrace,
) -> None:
    held = Held(app, drain=0.05)

    async def main() -> None:
        async with held.worker:
            await held.task.enqueue()
            await asyncio.sleep(1000)

    running = asyncio.create_task(main())
    await asyncio.wait_for(held.entered.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert held.worker.outcome is not None
    assert held.worker.outcome.timed_out
