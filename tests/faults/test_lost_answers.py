"""The store did what it was asked, and its answer never came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from headrace import EnqueueUnknown, Headrace, Job, State
from tests.faults.crew import LONG, eventually
from tests.faults.proxy import Proxy, calls
from tests.servers import RedisServer

# Nothing here may need a lease to run out.
LEASE = 120.0


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as proxy:
        yield proxy


class Counting:
    """An app that counts the runs of each job; all it says goes through the proxy."""

    def __init__(self, url: str, namespace: str) -> None:
        self.app = app = Headrace(url, namespace=namespace, lease=LEASE)
        self.runs: dict[int, int] = {}

        @app.task
        async def run(number: int) -> int:
            self.runs[number] = self.runs.get(number, 0) + 1
            return number

        @app.task(result_ttl=0)
        async def run_and_forget(number: int) -> None:
            self.runs[number] = self.runs.get(number, 0) + 1

        self.run, self.run_and_forget = run, run_and_forget

    async def warm_up(self) -> None:
        """The server knows the scripts from now on, so that each is one request."""
        assert await (await self.run.enqueue(-1)).result(LONG) == -1
        self.runs.clear()


@pytest.fixture
async def counting(proxy: Proxy, namespace: str) -> AsyncIterator[Counting]:
    counting = Counting(proxy.url, namespace)
    async with counting.app:
        yield counting


async def test_a_job_whose_append_was_not_answered_is_stored_once(
    counting: Counting, proxy: Proxy
) -> None:
    async with counting.app.worker():
        await counting.warm_up()
    proxy.swallow_answer_to(calls("append"))
    job = await counting.run.enqueue(1)
    assert len(proxy.swallowed) == 1
    store = (await counting.app.session()).store
    assert (await store.count("default")).waiting == 1
    async with counting.app.worker():
        assert await job.result(LONG) == 1
    assert counting.runs == {1: 1}


async def test_a_batch_whose_append_was_not_answered_is_stored_once(
    counting: Counting, proxy: Proxy
) -> None:
    async with counting.app.worker():
        await counting.warm_up()
        proxy.swallow_answer_to(calls("append"), times=2)
        jobs = await counting.app.enqueue_many(counting.run.call(n) for n in range(300))
        assert [await job.result(LONG) for job in jobs] == list(range(300))
    assert len(proxy.swallowed) == 2
    assert counting.runs == dict.fromkeys(range(300), 1)


async def test_a_send_that_is_never_answered_is_unknown(counting: Counting, proxy: Proxy) -> None:
    async with counting.app.worker():
        await counting.warm_up()
    proxy.swallow_answer_to(calls("append"), times=100)
    with pytest.raises(EnqueueUnknown) as unknown:
        await counting.run.options(id="order-7").enqueue(7)
    proxy.swallow_answer_to(b"", times=0)
    assert unknown.value.job_id == "order-7"
    # Told to send it again under the same id, one can.
    again = await counting.run.options(id="order-7").enqueue(7)
    async with counting.app.worker():
        assert await again.result(LONG) == 7
    assert counting.runs == {7: 1}


async def test_an_outcome_that_was_not_answered_is_written_once(
    counting: Counting, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    worker = counting.app.worker()
    running = asyncio.create_task(worker.run())
    await counting.warm_up()
    proxy.swallow_answer_to(calls("settle"))
    job = await counting.run.enqueue(1)
    assert await job.result(LONG) == 1
    await eventually("the answer is lost", lambda: proxy.swallowed)
    assert await (await counting.run.enqueue(2)).result(LONG) == 2
    worker.stop()
    outcome = await running
    assert counting.runs == {1: 1, 2: 1}
    assert (outcome.errors, outcome.crashes) == (0, 0)
    # The worker had the lease all the time: its own repeat is not a loss.
    assert outcome.lost_leases == 0, caplog.text


async def test_jobs_of_a_fetch_that_was_not_answered_run_at_once(
    counting: Counting, proxy: Proxy
) -> None:
    async with counting.app.worker():
        await counting.warm_up()
        proxy.swallow_answer_to(b"XREADGROUP")
        began = time.monotonic()
        jobs = await counting.app.enqueue_many(counting.run.call(n) for n in range(20))
        assert [await job.result(LONG) for job in jobs] == list(range(20))
        assert time.monotonic() - began < LEASE / 4
    assert len(proxy.swallowed) == 1
    assert counting.runs == dict.fromkeys(range(20), 1)


async def test_jobs_of_a_take_over_that_was_not_answered_run_at_once(
    proxy: Proxy, redis_server: RedisServer, namespace: str
) -> None:
    """Handed back by one worker, taken by another whose answer is lost."""
    counting = Counting(proxy.url, namespace)
    async with counting.app:
        async with counting.app.worker():
            await counting.warm_up()
        job = await counting.run.enqueue(1)
        store = (await counting.app.session()).store
        leaving = store.consumer("leaving", ["default"], LEASE)
        assert len(await leaving.fetch(10, 0)) == 1
        await leaving.close()
        proxy.swallow_answer_to(calls("reclaim"))
        async with counting.app.worker():
            await _done(job)
        assert counting.runs == {1: 1}


async def _done(job: Job[int]) -> None:
    assert await job.result(LONG) == 1
    assert await job.status() is State.DONE


async def test_jobs_of_a_promotion_that_was_not_answered_run_at_once(
    counting: Counting, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The promoter must not need its safety net to come round.
    monkeypatch.setattr("headrace.worker.service.POLL", 600.0)
    async with counting.app.worker():
        await counting.warm_up()
        await (await counting.run.options(delay=0.05).enqueue(0)).result(LONG)
        proxy.swallow_answer_to(calls("promote"))
        jobs = [await counting.run.options(delay=0.1).enqueue(n) for n in range(1, 6)]
        assert [await job.result(LONG) for job in jobs] == [1, 2, 3, 4, 5]
    assert counting.runs == dict.fromkeys(range(6), 1)


async def test_a_consumer_that_cannot_take_its_leave_closes_its_connections(
    counting: Counting, proxy: Proxy
) -> None:
    """A worker waits only briefly for a silent server, and leaves nothing open."""
    store = (await counting.app.session()).store
    await store.queues()
    before = proxy.open_connections
    leaving = store.consumer("leaving", ["default"], LEASE)
    await leaving.fetch(1, 0.01)
    assert proxy.open_connections > before
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await leaving.close()
    proxy.let_pass()
    await eventually("all is closed", lambda: proxy.open_connections <= before)
