"""Queues that may hold only so many jobs, on every store."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Call, Headrace, Job, JobCancelled, QueueFull, State, chain, group
from headrace.core.bounds import Overflow
from headrace.core.job import ids


async def test_a_full_queue_refuses_and_says_what(app: Headrace) -> None:
    app.queue("mail", max_length=3)

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    for n in range(3):
        await send.enqueue(n)
    with pytest.raises(QueueFull, match=r"queue 'mail' holds 3 jobs .* max_length") as full:
        await send.options(id="one-more").enqueue(3)
    assert full.value.retryable
    assert (full.value.queue, full.value.max_length) == ("mail", 3)
    assert full.value.job_ids == ("one-more",)
    async with app.worker():
        job = await until_there_is_room(app, send.options(id="one-more").call(3))
        assert await job.result(timeout=20) == 3


@pytest.mark.parametrize(
    ("overflow", "advice"),
    [
        ("reject", "or give it overflow='block' or 'drop_oldest'"),
        ("block", "flows and schedules do not wait for room: send again"),
        ("drop_oldest", "no job waits in it that could be dropped: send again"),
    ],
)
async def test_a_full_queue_says_what_helps(app: Headrace, overflow: Overflow, advice: str) -> None:
    app.queue("mail", max_length=3, overflow=overflow)

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    for n in range(3):
        await send.options(delay=60).enqueue(n)
    with pytest.raises(QueueFull, match=advice) as full:
        await app.enqueue(group([send.call(1), send.call(2)]))
    assert full.value.retryable
    assert ("give it" in str(full.value)) == (overflow == "reject")
    with pytest.raises(
        QueueFull, match=r"the flow has 4 jobs in queue 'mail', .* at most 3"
    ) as full:
        await app.enqueue(group([send.call(n) for n in range(4)]))
    assert not full.value.retryable
    assert "again" not in str(full.value)
    assert (await app.admin.queue("mail")).scheduled == 3


async def until_there_is_room(app: Headrace, call: Call[int]) -> Job[int]:
    while True:
        try:
            return await app.enqueue(call)
        except QueueFull:
            await asyncio.sleep(0.01)


async def test_a_bound_is_exact_for_all_who_send_at_once(app: Headrace) -> None:
    app.queue("mail", max_length=7)

    @app.task(queue="mail")
    async def send(n: int) -> None: ...

    sent = await asyncio.gather(*(send.enqueue(n) for n in range(50)), return_exceptions=True)
    refused = [one for one in sent if isinstance(one, QueueFull)]
    assert len(refused) == 43
    assert all(len(error.job_ids) == 1 for error in refused)
    assert (await app.admin.queue("mail")).waiting == 7


async def test_of_many_calls_those_that_fit_are_stored(app: Headrace) -> None:
    app.queue("mail", max_length=4)

    @app.task(queue="mail")
    async def send(n: int) -> None: ...

    calls = [send.options(id=f"job-{n}").call(n) for n in range(6)]
    with pytest.raises(QueueFull, match="2 jobs were not stored") as full:
        await app.enqueue_many(calls)
    assert full.value.job_ids == ("job-4", "job-5")
    assert (await app.admin.queue("mail")).waiting == 4


async def test_a_sender_waits_until_there_is_room(app: Headrace) -> None:
    app.queue("mail", max_length=5, overflow="block")

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    sending = asyncio.ensure_future(app.enqueue_many([send.call(n) for n in range(40)]))
    one = asyncio.ensure_future(send.enqueue(40))
    while (await app.admin.queue("mail")).waiting < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert not sending.done()
    async with app.worker(concurrency=2):
        jobs = [*await asyncio.wait_for(sending, 30), await asyncio.wait_for(one, 30)]
        results = await asyncio.gather(*(job.result(timeout=30) for job in jobs))
    assert results == list(range(41))


async def test_a_sender_that_stops_waiting_has_sent_nothing(app: Headrace) -> None:
    app.queue("mail", max_length=1, overflow="block")

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    first = await send.enqueue(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await send.options(id="late").enqueue(1)
    await first.cancel()
    assert await app.store.get("mail", [ids.to_id("late")]) == [None]


async def test_the_oldest_job_makes_room(app: Headrace) -> None:
    app.queue("mail", max_length=2, overflow="drop_oldest")

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    jobs = [await send.enqueue(n) for n in range(4)]
    with pytest.raises(JobCancelled):
        await jobs[0].result(timeout=10)
    async with app.worker():
        assert [await job.result(timeout=10) for job in jobs[2:]] == [2, 3]


async def test_a_flow_fits_as_a_whole_or_not_at_all(app: Headrace) -> None:
    app.queue("mail", max_length=5, overflow="block")

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    @app.task(queue="mail")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    with pytest.raises(QueueFull):
        await app.enqueue(group([send.call(n) for n in range(6)]).then(total.call()))
    counts = await app.admin.queue("mail")
    assert (counts.waiting, counts.blocked) == (0, 0)
    job = await app.enqueue(chain(send.call(1), send.call()))
    async with app.worker():
        assert await job.result(timeout=20) == 1


async def test_a_flow_does_not_drop_its_own_jobs(app: Headrace) -> None:
    app.queue("mail", max_length=3, overflow="drop_oldest")

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n

    old = [await send.enqueue(n) for n in range(2)]
    with pytest.raises(QueueFull, match="the flow has 5 jobs in queue 'mail'") as full:
        await app.enqueue(group([send.call(n) for n in range(5)]))
    assert not full.value.retryable
    assert [await job.status() for job in old] == [State.WAITING] * 2, "dropped for nothing"
    flow = await app.enqueue(group([send.call(n) for n in range(3)]))
    async with app.worker():
        assert await flow.result(timeout=20) == [0, 1, 2]
    assert [await job.status() for job in old] == [State.CANCELLED] * 2


async def test_a_bound_is_of_its_queue_alone(app: Headrace) -> None:
    app.queue("mail", max_length=1)

    @app.task
    async def send(n: int) -> int:
        return n

    jobs = [await send.enqueue(n) for n in range(3)]
    assert [await job.status() for job in jobs] == [State.WAITING] * 3
    await send.options(queue="mail").enqueue(1)
    with pytest.raises(QueueFull):
        await send.options(queue="mail").enqueue(2)


async def test_a_tick_that_finds_no_room_is_left_out(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    app.queue("mail", max_length=1)

    @app.task(queue="mail")
    async def send() -> None: ...

    await send.options(delay=3600).enqueue()
    await app.schedules.upsert("often", send.call(), every=0.1)
    async with app.worker():
        async with asyncio.timeout(30):
            left_out = "a tick is left out: queue 'mail' holds 1 job"
            while left_out not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    counts = await app.admin.queue("mail")
    assert (counts.waiting, counts.scheduled) == (0, 1)
