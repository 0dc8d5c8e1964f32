"""A Redis server whose clock is set back: limits and upkeep do not stand still for as long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.store.contract import StoreConsumer
from headrace.store.redis.store import RedisStore
from headrace.testing.conformance.ground import QUEUE, known, parcel
from headrace.testing.conformance.topics.topic_ground import event
from tests.faults.crew import eventually
from tests.scripts import alter_scripts

HOUR = 3600


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """What all scripts take for the time, from now on."""
    shown = f"return (time[1] + {seconds}) * 1000"
    alter_scripts(monkeypatch, "return time[1] * 1000", shown)


@pytest.mark.parametrize(
    "limit",
    [Limit("calls", 2, 300), Limit("calls", 10, 600, 1), Limit("calls", 4, 600, 2)],
    ids=["together", "spread out", "in bursts"],
)
async def test_a_limit_is_closed_no_longer_than_its_time(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    await store.append(QUEUE, [parcel(constraints=Constraints(limits=(limit,))) for _ in range(4)])
    worker = store.consumer("one", [QUEUE], 30.0)
    started = await start_all(worker)
    assert 0 < started < 4
    await worker.promote(QUEUE)
    set_clock(monkeypatch, -HOUR)

    async def all_started() -> bool:
        nonlocal started
        promotion = await worker.promote(QUEUE)
        assert promotion.next_in is None or promotion.next_in <= limit.window_ms / 1000 + 0.01
        started += await start_all(worker)
        return started == 4

    await eventually("the others start", all_started)
    await worker.close()


async def start_all(worker: StoreConsumer) -> int:
    """Begin all jobs that may; how many."""
    begun = known(await worker.fetch(10, 0))
    if begun:
        assert await worker.begin(QUEUE, begun) == {}
    return len(begun)


async def test_a_ticket_that_outlasts_its_time_holds_nobody_up(store: RedisStore) -> None:
    """As one does that was given out before the clock was set back, to a worker that has died."""
    keys, log = store.keys(QUEUE), store.keys("@orders")
    for ticket in (keys.promoter, keys.flow_relay, log.trimmer):
        await store.links().send.call("SET", ticket, "gone", "PX", HOUR * 1000, key=ticket)
    first, second = parcel(delay_ms=1), parcel()
    await store.append(QUEUE, [first])
    worker = store.consumer("one", [QUEUE], 30.0)

    async def promoted() -> bool:
        return (await worker.promote(QUEUE)).moved == 1

    await eventually("the job is let go", promoted)
    ended = ("q", QUEUE, "k", first.job_id, "p", second.job_id, "s", "done", "v", b"")
    message = (*ended, "a", "0", "n", "0")
    await store.links().send.call("XADD", keys.flow_messages, "*", *message, key=keys.flow_messages)
    assert len(await worker.flow_messages(QUEUE)) == 1
    await store.publish("@orders", [event(), event()])

    async def trimmed() -> bool:
        return (await store.trim("@orders", retention_ms=0, gone_after_ms=1)).removed == 2

    await eventually("the log is trimmed", trimmed)
    await worker.close()
