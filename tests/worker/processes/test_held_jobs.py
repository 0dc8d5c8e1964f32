"""Jobs that a process was given ahead: they can be stopped, and nothing happens to them twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import Job, JobCancelled, JobFailed, Retry, State
from headrace.middleware import Middleware
from headrace.worker.processes import process_pool
from headrace.worker.processes.awaited_run import run_in_process
from headrace.worker.run.look_ahead import LookAhead
from tests.worker.processes.pool_tasks import AwaitedPool, app, hold, note, notes_in
from tests.worker.states import reach, until


@pytest.fixture(autouse=True)
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is given whatever there is."""
    monkeypatch.setattr(LookAhead, "count", lambda ahead, serving: 100 * serving)


@pytest.fixture(params=["direct", "awaited"])
async def running(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """A worker with one process. Its runs have asyncio tasks if there is middleware."""
    if request.param == "awaited":
        monkeypatch.setattr(app, "middlewares", [Indifferent()])
    async with app, app.worker(processes=1):
        yield


class Indifferent(Middleware):
    """Wants to see no run."""

    def wants(self, run: object) -> bool:
        return False


async def begun(folder: Path, timeout: float = 60) -> Job[int]:
    """A job that goes on until the gate is opened."""
    job = await hold.options(retry=Retry(1), timeout=timeout).enqueue(str(folder))
    await until((folder / "gate-pid").exists)
    return job


async def noted(folder: Path, what: str) -> list[Job[int]]:
    """Jobs that wait behind it."""
    return [await note.enqueue(str(folder), one) for one in what]


@pytest.mark.usefixtures("running")
async def test_others_go_on_when_a_job_is_cancelled(tmp_path: Path) -> None:
    first = await begun(tmp_path)
    others = await noted(tmp_path, "abc")
    await first.cancel()
    with pytest.raises(JobCancelled):
        await first.result(60)
    for job in others:
        await job.result(60)
    assert notes_in(tmp_path) == ["a", "b", "c"]


@pytest.mark.usefixtures("running")
async def test_others_go_on_when_a_job_times_out(tmp_path: Path) -> None:
    first = await begun(tmp_path, timeout=0.5)
    others = await noted(tmp_path, "abc")
    with pytest.raises(JobFailed) as failed:
        await first.result(60)
    assert failed.value.error_type == "TimeoutError"
    for job in others:
        await job.result(60)
    assert notes_in(tmp_path) == ["a", "b", "c"]


@pytest.mark.usefixtures("running")
async def test_a_job_that_waits_behind_another_does_not_time_out(tmp_path: Path) -> None:
    first = await begun(tmp_path)
    # Longer than such a run takes on a busy machine, and less than it waits.
    second = await note.options(timeout=1.5).enqueue(str(tmp_path), "a")
    await asyncio.sleep(1.7)
    (tmp_path / "gate").touch()
    await first.result(60)
    await second.result(60)
    assert notes_in(tmp_path) == ["a"]


@pytest.mark.usefixtures("running")
async def test_a_job_that_waits_behind_another_is_cancelled_at_once(tmp_path: Path) -> None:
    first = await begun(tmp_path)
    others = await noted(tmp_path, "abc")
    await others[1].cancel()
    with pytest.raises(JobCancelled):
        await others[1].result(60)
    (tmp_path / "gate").touch()
    for job in (first, others[0], others[2]):
        await job.result(60)
    assert notes_in(tmp_path) == ["a", "c"]


@pytest.mark.usefixtures("running")
async def test_a_paused_task_does_not_begin_behind_another(tmp_path: Path) -> None:
    first = await begun(tmp_path)
    others = await noted(tmp_path, "ab")
    await app.admin.pause("default", task=note.name)
    (tmp_path / "gate").touch()
    await first.result(60)
    await reach(others, State.BLOCKED)
    assert notes_in(tmp_path) == []
    await app.admin.resume("default", task=note.name)
    for job in others:
        await job.result(60)
    assert sorted(notes_in(tmp_path)) == ["a", "b"]


async def test_a_worker_that_stops_hands_back_what_it_has_not_begun(tmp_path: Path) -> None:
    async with app:
        worker = app.worker(processes=1)
        async with worker:
            first = await begun(tmp_path)
            others = await noted(tmp_path, "ab")
            worker.stop()
            await reach(others, State.WAITING)
            (tmp_path / "gate").touch()
        assert await first.status() is State.DONE
        assert notes_in(tmp_path) == []
        async with app.worker(processes=1):
            for job in others:
                await job.result(60)
        assert sorted(notes_in(tmp_path)) == ["a", "b"]


async def test_what_begins_while_it_is_held_back_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the worker does not notice that it has begun.
    monkeypatch.setattr(process_pool, "_LOOK", 600.0)
    pool = AwaitedPool()
    run = pool.made(hold.call(str(tmp_path)))
    waiting = asyncio.create_task(run_in_process(pool, run))
    await until((tmp_path / "gate-pid").exists)
    run.handed_back = True
    waiting.cancel()
    await asyncio.sleep(0)
    (tmp_path / "gate").touch()
    assert isinstance(await waiting, bytes)
    assert not run.handed_back
    await pool.close()
