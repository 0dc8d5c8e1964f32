"""Plain functions in threads are as fair as async ones: what cannot start waits in the store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace import Headrace, Job, JobFailed, State
from headrace.worker.run import stopper
from headrace.worker.run.look_ahead import LookAhead
from headrace.worker.run.stopper import Stopper
from tests.servers import RedisCluster
from tests.worker.run.test_cancelling import StopperClock
from tests.worker.states import reach

LONG = 60.0


@pytest.fixture(params=["sqlite", "redis", "cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "cluster":
        cluster: RedisCluster = request.getfixturevalue("cluster")
        return cluster.url
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def app(url: str, namespace: str) -> AsyncIterator[Headrace]:
    async with Headrace(url, namespace=namespace) as app:
        yield app


async def until(what: str, condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < ends_at, what
        await asyncio.sleep(0.01)


class Work:
    """A plain task whose runs wait at a gate, and an async one that does not."""

    def __init__(self, app: Headrace) -> None:
        self.begun: list[int] = []
        self.done: list[int] = []
        self.quick: list[int] = []
        self.gate = threading.Semaphore(0)

        @app.task
        def hold(number: int) -> int:
            self.begun.append(number)
            assert self.gate.acquire(timeout=LONG)
            self.done.append(number)
            return number

        @app.task
        def short(number: int) -> int:
            return number

        @app.task
        async def pass_by(number: int) -> None:
            self.quick.append(number)

        @app.task(queue="elsewhere")
        def elsewhere() -> None: ...

        self.app, self.hold, self.short, self.pass_by = app, hold, short, pass_by
        self.elsewhere = elsewhere

    async def send(self, count: int) -> None:
        await self.app.enqueue_many([self.hold.call(number) for number in range(count)])

    async def begins(self, count: int) -> None:
        await until(f"{count} have begun", lambda: len(self.begun) >= count)

    async def ends(self, count: int) -> None:
        await until(f"{count} have ended", lambda: len(self.done) >= count)

    def open(self, count: int) -> None:
        self.gate.release(count)

    async def teach(self) -> None:
        """Let the worker learn that runs are short, so that it looks ahead."""
        jobs = [await self.short.enqueue(number) for number in range(30)]
        for job in jobs:
            await job.result(LONG)


@pytest.fixture
def work(app: Headrace) -> Work:
    return Work(app)


async def test_jobs_that_wait_for_a_thread_wait_in_the_store(work: Work) -> None:
    app = work.app
    jobs = [await work.hold.enqueue(number) for number in range(6)]
    async with app.worker(threads=1):
        await work.begins(1)
        states = [await job.status() for job in jobs]
        assert states == [State.RUNNING, *[State.WAITING] * 5]
        assert (await app.admin.queue("default")).waiting == 5
        assert "running" not in await app.admin.why(jobs[1].id)
        work.open(6)
        await work.ends(6)
    assert work.done == list(range(6))


async def test_async_jobs_of_the_same_queue_go_on_while_all_threads_are_busy(work: Work) -> None:
    await work.send(20)
    async with work.app.worker(threads=2):
        await work.begins(2)
        await work.app.enqueue_many([work.pass_by.call(number) for number in range(300)])
        await until("async jobs go on", lambda: len(work.quick) == 300)
        assert len(work.begun) == 2
        work.open(20)
        await work.ends(20)


async def test_an_idle_worker_gets_what_a_busy_one_cannot_start(work: Work) -> None:
    await work.send(30)
    async with work.app.worker(threads=1):
        await work.begins(1)
        async with work.app.worker(threads=8):
            await work.begins(9)
            work.open(30)
            await work.ends(30)


async def test_a_thread_that_is_free_again_takes_the_next_job(work: Work) -> None:
    """Also while the worker's read waits for other jobs."""
    await work.send(3)
    async with work.app.worker(threads=1):
        for number in range(3):
            await work.begins(number + 1)
            await asyncio.sleep(0.1)
            work.open(1)
        await work.ends(3)
    assert work.begun == [0, 1, 2]


async def test_a_priority_overtakes_what_has_not_begun(work: Work) -> None:
    await work.send(150)
    async with work.app.worker(threads=1):
        for number in range(12):
            await work.begins(number + 1)
            work.open(1)
        await work.ends(12)
        await work.hold.options(priority=100).enqueue(1000)
        for number in range(12, 151):
            await work.begins(number + 1)
            work.open(1)
        await work.ends(151)
    # Not at once, since a few may be held ahead.
    assert work.done.index(1000) < 40


async def test_nothing_starts_in_a_paused_queue(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what a worker held ahead: it goes back, though it has not waited for long."""
    monkeypatch.setattr(LookAhead, "count", lambda *_: 5)
    monkeypatch.setattr(Stopper, "_hand_back_late", lambda *_: None)
    app = work.app

    async def are_held(count: int) -> None:
        ends_at = time.monotonic() + LONG
        while (await app.admin.queue("default")).running != count:
            assert time.monotonic() < ends_at
            await asyncio.sleep(0.01)

    await work.send(6)
    async with app.worker(threads=1):
        await are_held(6)
        await work.begins(1)
        await app.admin.pause("default")
        await are_held(1)
        work.open(6)
        await work.ends(1)
        # The thread is free, and the worker goes on to read.
        await (await work.elsewhere.enqueue()).result(LONG)
        assert work.begun == [0]
        await app.admin.resume("default")
        await work.ends(6)
    assert work.begun == list(range(6))


@pytest.mark.parametrize("taught", [False, True])
async def test_a_job_that_expires_while_it_waits_never_starts(work: Work, taught: bool) -> None:
    async with work.app.worker(threads=1):
        if taught:
            await work.teach()
        await work.hold.enqueue(1)
        await work.begins(1)
        late = await work.hold.options(expires=0.15).enqueue(2)
        await asyncio.sleep(0.2)
        work.open(2)
        with pytest.raises(JobFailed, match="expired"):
            await late.result(LONG)
        await work.ends(1)
    assert work.begun == [1]


async def test_jobs_of_a_batch_that_expire_while_it_waits_are_left_out(app: Headrace) -> None:
    gate, taken = threading.Event(), list[list[int]]()

    @app.task
    def hold() -> None:
        assert gate.wait(LONG)

    @app.task(batch=3, max_wait=0.05)
    def gather(numbers: list[int]) -> None:
        taken.append(numbers)

    async with app.worker(threads=1):
        first = await hold.enqueue()
        late = await gather.options(expires=0.15).enqueue(1)
        await gather.enqueue(2)
        await asyncio.sleep(0.25)
        gate.set()
        with pytest.raises(JobFailed, match="expired"):
            await late.result(LONG)
        await until("the other runs", lambda: taken)
        await first.result(LONG)
    assert taken == [[2]]


async def test_what_waits_behind_a_long_run_goes_to_another_worker(work: Work) -> None:
    async with work.app.worker(threads=1):
        await work.teach()
        await work.send(4)
        await work.begins(1)
        async with work.app.worker(threads=1):
            await work.begins(2)
            work.open(4)
            await work.ends(4)
    assert sorted(work.done) == [0, 1, 2, 3]


async def test_what_goes_back_since_it_waits_too_long_is_not_overtaken(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by what came later either, and waits in the same worker."""
    begun, over = threading.Event(), threading.Event()
    taken: list[int] = []
    clock = StopperClock()
    monkeypatch.setattr(stopper, "time", clock)

    @app.task(batch=2, max_wait=0.01)
    def gather(numbers: list[int]) -> None:
        taken.extend(numbers)
        begun.set()
        assert over.wait(LONG)

    async def taken_by_worker(*numbers: int) -> list[Job[None]]:
        jobs = await app.enqueue_many([gather.call(number) for number in numbers])
        await reach(jobs, State.RUNNING)
        # Until they wait for a thread, which batches do a moment later, in this loop.
        await asyncio.sleep(0.1)
        return jobs

    async with app.worker(concurrency=10, threads=1):
        await taken_by_worker(0, 1)
        await asyncio.to_thread(begun.wait, LONG)
        await taken_by_worker(2, 3)
        sent_at = time.monotonic()
        jobs = await taken_by_worker(4, 5)
        # Too long for those before, and not for those after.
        clock.now, clock.looked_at = sent_at + 0.2, False
        await until("the stopper looks", lambda: clock.looked_at)
        over.set()
        for job in jobs:
            await job.result(LONG)
    assert taken == list(range(6))


async def test_a_task_that_became_plain_still_waits_for_a_thread(
    app: Headrace, url: str, namespace: str
) -> None:
    """Its senders are of an older version, in which it was async."""
    older = Headrace(url, namespace=namespace)
    begun: list[int] = []
    gate = threading.Semaphore(0)

    async def older_hold(number: int) -> None: ...

    sent_as = older.task(name="hold")(older_hold)

    @app.task(name="hold")
    def hold(number: int) -> None:
        begun.append(number)
        assert gate.acquire(timeout=LONG)

    quick: list[int] = []

    @app.task
    async def pass_by(number: int) -> None:
        quick.append(number)

    async with older:
        await older.enqueue_many([sent_as.call(number) for number in range(30)])
    async with app.worker(threads=1):
        await app.enqueue_many([pass_by.call(number) for number in range(50)])
        await until("the first begins", lambda: begun)
        await until("async jobs go on", lambda: len(quick) == 50)
        async with app.worker(threads=4):
            await until("others help", lambda: len(begun) >= 5)
            gate.release(30)
            await until("all run", lambda: len(begun) == 30)
    assert sorted(begun) == list(range(30))


async def test_a_task_that_became_async_runs_without_a_thread(
    app: Headrace, url: str, namespace: str
) -> None:
    older = Headrace(url, namespace=namespace)

    def older_pass(number: int) -> None: ...

    sent_as = older.task(name="pass_by")(older_pass)
    done: list[int] = []

    @app.task(name="pass_by")
    async def pass_by(number: int) -> None:
        done.append(number)

    async with older:
        await older.enqueue_many([sent_as.call(number) for number in range(30)])
    async with app.worker(threads=1):
        await until("all run", lambda: len(done) == 30)
    assert sorted(done) == list(range(30))
