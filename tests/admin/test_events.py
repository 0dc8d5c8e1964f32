"""`app.admin.events()` and `stats()`: what happened."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from headrace import ConfigError, Headrace, Reject
from headrace.admin import JobEvent, MinuteStats
from tests.admin.counting import counted
from tests.servers import RedisServer


async def read(app: Headrace, queue: str = "default", after: str = "") -> list[JobEvent]:
    return [event async for event in app.admin.events(queue, after)]


async def test_the_life_of_a_job_is_told_in_order(app: Headrace) -> None:
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
        # From the start of a run, that start is told again.
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


async def test_now_tells_nothing_of_before(app: Headrace) -> None:
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
        assert each.wait_p50
        assert each.wait_p95
        assert each.wait_p50 <= each.wait_p95
    (minute,) = {each.minute.second for each in stats}
    assert minute == 0
    assert {each.queue for each in await app.admin.stats(5, "mail")} == {"mail"}
    async with counted(app) as calls:
        named = await app.admin.stats(5, ["mail", "never", "default", "mail"])
    assert (named, calls.total()) == (stats, 2)
    assert await app.admin.stats(5, []) == []
    with pytest.raises(ConfigError, match="minutes"):
        await app.admin.stats(0)


def test_percentiles_are_estimated_from_the_histogram() -> None:
    minute = datetime(2026, 1, 1, tzinfo=UTC)
    stats = MinuteStats(minute, "q", "t", {}, {0.004: 50, 0.016: 50})
    assert stats.p50 == pytest.approx(0.004)
    assert stats.p95 == pytest.approx(0.0148)
    assert MinuteStats(minute, "q", "t").p50 is None
    waited = MinuteStats(minute, "q", "t", waits={0.004: 50, 0.016: 50})
    assert waited.wait_p50 == pytest.approx(0.004)
    assert waited.p50 is None
    assert waited.wait_p95 == waited.percentile(95, of="waits") == pytest.approx(0.0148)
    assert MinuteStats(minute, "q", "t").wait_p95 is None
