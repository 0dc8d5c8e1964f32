"""`app.admin.events()` and `stats()`: what happened."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from headrace import ConfigError, Headrace, Reject
from headrace.admin import JobEvent, MinuteStats
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE
from headrace.core.job.tally import Tally
from headrace.store.contract import Settlement
from tests.admin.counting import counted
from tests.servers import RedisServer

MINUTE = datetime(2026, 1, 1, tzinfo=UTC)


async def read(app: Headrace, queue: str = "default", after: str = "") -> list[JobEvent]:
    return [event async for event in app.admin.events(queue, after)]


async def test_the_life_of_a_job_is_reported_in_order(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    async with app.worker():
        job = await work.enqueue()
        await job.result(timeout=10)
    events = await read(app)
    assert [(event.kind, event.id, event.task, event.queue) for event in events] == [
        (kind, job.id, "work", "default") for kind in ("sent", "started", "done")
    ]
    done = events[-1]
    assert done.attempt == 1
    assert done.duration
    assert timedelta() < done.duration < timedelta(minutes=1)
    assert abs(done.time - datetime.now(UTC)) < timedelta(minutes=5)


async def test_reading_goes_on_after_any_cursor(app: Headrace) -> None:
    @app.task
    async def work(number: int) -> None:
        if number % 3 == 0:
            raise Reject("every third")

    async with app.worker():
        jobs = await app.enqueue_many([work.call(n) for n in range(30)])
        for job in jobs:
            async for _ in job.watch(poll=0.05):
                pass
    events = await read(app)
    assert len([event for event in events if event.kind == "dead"]) == 10
    assert {event.detail for event in events if event.kind == "dead"} == {"rejected"}
    for position, event in enumerate(events):
        following = [e.kind for e in await read(app, after=event.cursor)]
        expected = [e.kind for e in events[position + 1 :]]
        # From the start of a run, that start comes again.
        assert following in (expected, [event.kind, *expected])


async def test_following_waits_for_more(app: Headrace) -> None:
    @app.task
    async def work(number: int) -> None: ...

    await work.enqueue(0)
    seen: list[JobEvent] = []

    async def follow(after: str) -> None:
        async for event in app.admin.events("default", after, follow=True):
            seen.append(event)
            if len(seen) == 5:
                return

    following = asyncio.create_task(follow(""))
    for number in range(4):
        await work.enqueue(number)
        await asyncio.sleep(0.01)
    await asyncio.wait_for(following, 20)
    assert [event.kind for event in seen] == ["sent"] * 5


async def test_now_says_nothing_of_before(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    assert await read(app, after="$") == []
    assert await read(app, queue="never") == []
    assert await read(app, queue="never", after="$") == []


async def test_following_from_now_ends_when_it_is_closed(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    async with aclosing(app.admin.events("default", "$", follow=True)) as events:
        waiting = asyncio.ensure_future(anext(events))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        job = await work.enqueue()
        assert (await asyncio.wait_for(waiting, 20)).id == job.id


async def test_following_goes_on_when_the_store_comes_back(redis_server: RedisServer) -> None:
    app = Headrace(redis_server.url)

    @app.task
    async def work() -> None: ...

    async with app:
        first = await work.enqueue()
        async with aclosing(app.admin.events("default", follow=True)) as events:
            assert (await anext(events)).id == first.id
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(redis_server.stop)
            await asyncio.to_thread(redis_server.start)
            second = await work.enqueue()
            assert (await asyncio.wait_for(waiting, 30)).id == second.id


async def test_what_is_no_cursor_is_refused(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    with pytest.raises(ConfigError, match="'nonsense' is not a cursor"):
        await read(app, after="nonsense")
    with pytest.raises(ConfigError, match="queue"):
        await read(app, queue="a b")


async def test_minutes_are_counted_by_queue_and_task(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    @app.task(queue="mail")
    async def fail() -> None:
        raise Reject("no")

    async with app.worker():
        for _ in range(3):
            await (await work.enqueue()).result(timeout=10)
        async for _ in (await fail.enqueue()).watch(poll=0.05):
            pass
    stats = await app.admin.stats()
    totals: dict[tuple[str, str, str], int] = {}
    for each in stats:
        for kind, count in each.counts.items():
            key = each.queue, each.task, kind
            totals[key] = totals.get(key, 0) + count
    assert totals == {
        ("default", "work", "sent"): 3,
        ("default", "work", "done"): 3,
        ("mail", "fail", "sent"): 1,
        ("mail", "fail", "dead"): 1,
    }
    assert sum(sum(each.durations.values()) for each in stats) == 4
    timed = [each for each in stats if each.durations]
    assert all(each.p50 and each.p95 and each.p50 <= each.p95 for each in timed)
    assert sum(sum(each.waits.values()) for each in stats) == 4
    assert sum(each.run_seconds for each in stats) > 0
    for each in timed:
        assert 0 < each.run_seconds <= sum(each.durations.values()) * max(each.durations)
        assert 0 <= each.wait_seconds <= sum(each.waits.values()) * max(each.waits)
        assert each.wait_p50 is not None
        assert each.wait_p95 is not None
        assert each.wait_p50 <= each.wait_p95
    (minute,) = {each.minute.second for each in stats}
    assert minute == 0
    assert {each.queue for each in await app.admin.stats(5, "mail")} == {"mail"}
    async with counted(app) as calls:
        named = await app.admin.stats(5, ["mail", "never", "default", "mail"])
    assert (named, calls.total()) == (stats, 2)
    now = await app.admin.now()
    assert await app.admin.stats(5, "mail", now=now) == [e for e in stats if e.queue == "mail"]
    assert not await app.admin.stats(5, "mail", now=now + timedelta(minutes=10))
    assert await app.admin.stats(5, []) == []
    with pytest.raises(ConfigError, match="minutes"):
        await app.admin.stats(0)


def of_runs(*lengths: float) -> MinuteStats:
    """What is counted of runs that took so many seconds."""
    deliveries = []
    for seconds in lengths:
        delivery = LeasedDelivery("q", 0, b"")
        delivery.took_us = round(seconds * 1e6)
        deliveries.append(Settlement(delivery, DONE))
    counts = Tally.of(deliveries, lambda _: 0).counts
    durations = {int(n[1:]) / 1e6: count for (n, _), count in counts.items() if n[0] == "<"}
    return MinuteStats(MINUTE, "q", "t", {}, durations, run_seconds=sum(lengths))


def test_percentiles_are_estimated_from_histogram_and_sum() -> None:
    for seconds in (0.00005, 0.0009, 0.0021, 1.1, 1.9, 70.0):
        alike = of_runs(*[seconds] * 20)
        assert alike.p50 == pytest.approx(seconds, rel=0.01)
        assert alike.p95 == pytest.approx(seconds, rel=0.95 if seconds < 0.001 else 0.15)
    mixed = of_runs(*[0.01] * 90, *[2.0] * 10)
    assert mixed.p50 == pytest.approx(0.01, rel=0.3)
    assert mixed.p95 == pytest.approx(2.0, rel=0.1)
    waited = MinuteStats(MINUTE, "q", "t", waits={0.128: 9}, wait_seconds=0.9)
    assert waited.p50 is None
    assert waited.wait_p50 == waited.percentile(50, of="waits") == pytest.approx(0.1)
    assert waited.wait_p95 == pytest.approx(0.1, rel=0.3)


def test_percentiles_of_a_histogram_alone_lie_within_its_buckets() -> None:
    stats = MinuteStats(MINUTE, "q", "t", {}, {0.004: 50, 0.016: 50})
    assert stats.p50 == pytest.approx(0.004)
    assert stats.percentile(75) == pytest.approx(0.0113, rel=0.01)
    assert stats.percentile(100) == pytest.approx(0.016)
    assert MinuteStats(MINUTE, "q", "t").p50 is None
    assert MinuteStats(MINUTE, "q", "t").wait_p95 is None


def test_wider_buckets_of_an_earlier_version_still_say_how_long_runs_took() -> None:
    stats = MinuteStats(MINUTE, "q", "t", {}, {4.096: 20}, run_seconds=22.0)
    assert stats.p50 == pytest.approx(1.1)
    assert stats.p95 == pytest.approx(1.1, rel=0.15)
