"""A job on its way to another queue of a Redis server is not lost, and arrives once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.errors import StoreUnavailable
from headrace.store.queue_values import Rescheduling
from headrace.store.redis import moves, script_stubs
from headrace.store.redis.store import RedisStore
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of
from headrace.worker.upkeep.flow_relay import FlowRelay

FAR = f"{QUEUE}-far"
AWAY = Rescheduling(queue=FAR)
GROUND = Ground()


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


async def killed(*given: object, **named: object) -> None:
    raise StoreUnavailable("killed")


async def test_a_worker_goes_on_where_the_caller_was_killed(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await GROUND.send(store, 3)
    with monkeypatch.context() as patch:
        patch.setattr(moves, "deliver", killed)
        with pytest.raises(StoreUnavailable):
            await store.reschedule(QUEUE, sent, AWAY)
    assert await store.count(QUEUE) == Counts()
    worker = store.consumer("worker", [QUEUE], 60)
    await FlowRelay(store, worker, [QUEUE]).step()
    assert await store.count(FAR) == Counts(waiting=3)
    assert await worker.flow_messages(QUEUE) == []
    await worker.close()


async def test_the_next_call_goes_on_too(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await GROUND.send(store, 2)
    with monkeypatch.context() as patch:
        patch.setattr(moves, "deliver", killed)
        with pytest.raises(StoreUnavailable):
            await store.reschedule(QUEUE, [first], AWAY)
    assert await store.reschedule(QUEUE, [second], AWAY) == [True]
    assert await store.count(FAR) == Counts(waiting=2)


async def test_a_job_that_arrives_again_after_it_has_run_does_not_run_again(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await GROUND.send(store, 2)
    there = store.consumer("there", [FAR], 60)
    with monkeypatch.context() as patch:
        patch.setattr(script_stubs, "ack_flow_messages", killed)
        await store.reschedule(QUEUE, sent, AWAY)
    ran = await GROUND.run_all(store, there, queues=[FAR])
    assert ran == sent[:1], "the first one was delivered, and its message is still there"
    worker = store.consumer("worker", [QUEUE], 60)
    await FlowRelay(store, worker, [QUEUE]).step()
    assert ids_of(await GROUND.take(there, 1)) == sent[1:]
    assert await there.fetch(10, 0) == []
    for each in (worker, there):
        await each.close()
