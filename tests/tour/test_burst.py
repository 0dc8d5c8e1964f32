"""A worker that ends once its queues are empty; on every store."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from headrace import Headrace, Job, Retry, State, Topic, WorkerOutcome, chain
from headrace.worker.worker import Worker
from tests.store.patience import eventually
from tests.tour.heard import Heard, Paid


async def burst(app: Headrace) -> WorkerOutcome:
    async with asyncio.timeout(30):
        return await app.worker(burst=True).run()


async def has_looked(worker: Worker) -> bool:
    return worker.runtime is not None and worker.runtime.burst.looked > 2


async def test_a_burst_ends_when_nothing_waits_or_runs(
    app: Headrace, orders: Topic[Paid], heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    """What jobs lead to is run too: the next of a flow in another queue, handlers, retries that are
    due at once, jobs that wait for their turn at a limit, events."""
    caplog.set_level(logging.INFO, "headrace.worker")
    ends: list[str] = []

    def noted(job: Job[None]) -> None:
        ends.append(job.id)

    @app.task
    async def one() -> int:
        await asyncio.sleep(0.05)
        return 1

    @app.task(queue="other", rate="2/s")
    async def more(number: int) -> int:
        return number + 1

    @app.task(retry=Retry(2, backoff=[0], jitter=False), on_dead=noted)
    async def fail() -> None:
        raise ValueError

    @app.task(retry=Retry(2, backoff="fixed", base=60, jitter=False))
    async def fail_slowly() -> None:
        raise ValueError

    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event)

    flow = await app.enqueue(chain(one.call(), more.call(), more.call(), more.call()))
    dead = await fail.enqueue()
    later: list[Job[Any]] = [await fail_slowly.enqueue(), await one.options(delay=60).enqueue()]
    await orders.publish(Paid("o-1"))
    outcome = await burst(app)
    assert outcome == WorkerOutcome(left=2)
    assert outcome.exit_code == 0
    assert await flow.result(0) == 4
    assert ends == [dead.id]
    assert heard["billing"] == [Paid("o-1")]
    assert [await job.status() for job in later] == [State.SCHEDULED, State.SCHEDULED]
    assert "the burst ends; left for later: 2 scheduled" in caplog.text
    assert "left for later: 2" in str(outcome)
    # The four of the flow, on_dead, the event.
    assert "; 6 done, 3 failed attempts, 1 dead" in caplog.text


async def test_a_burst_leaves_what_is_paused_or_blocked_by_that(app: Headrace) -> None:
    @app.task(queue="paused")
    async def first() -> int:
        return 1

    @app.task
    async def second(number: int) -> int:
        return number

    await app.enqueue(chain(first.call(), second.call()))
    await app.admin.pause("paused")
    assert await burst(app) == WorkerOutcome(left=2)
    await app.admin.resume("paused")
    assert await burst(app) == WorkerOutcome()


async def test_a_burst_leaves_what_a_rate_holds_in_a_paused_queue(app: Headrace) -> None:
    @app.task(rate="1/s")
    async def work() -> None: ...

    for _ in range(2):
        await work.enqueue()
    await app.admin.pause("default")
    assert await burst(app) == WorkerOutcome(left=2)


async def test_a_burst_runs_what_a_rate_holds_behind_many_blocked_jobs(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.burst._EXAMINED", 2)

    @app.task(retry=Retry(2, backoff="fixed", base=60, jitter=False))
    async def fail_slowly() -> None:
        raise ValueError

    @app.task(rate="1/s")
    async def work() -> int:
        return 1

    for _ in range(6):
        await fail_slowly.options(key="one").enqueue()
    jobs = [await work.enqueue() for _ in range(2)]
    assert await burst(app) == WorkerOutcome(left=6)
    assert [await job.result(0) for job in jobs] == [1, 1]


async def test_a_burst_waits_for_what_another_worker_runs(app: Headrace) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(again: bool = True) -> None:
        begun.set()
        await may_end.wait()
        if again:
            await work.enqueue(False)

    await work.enqueue()
    async with app.worker(concurrency=1) as other:
        await begun.wait()
        other.stop()
        worker = app.worker(burst=True)
        ending = asyncio.create_task(worker.run())
        await eventually(partial(has_looked, worker))
        assert not ending.done()
        may_end.set()
    assert await ending == WorkerOutcome()
    assert (await app.admin.queue("default")).waiting == 0


def test_burst_is_true_or_false(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    with pytest.raises(ValueError, match="burst must be True or False, not 'yes'"):
        app.worker(burst="yes")  # type: ignore[arg-type]
