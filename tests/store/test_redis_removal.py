"""What a removed queue leaves on a Redis server, and what one leaves that nobody uses."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from headrace.core.bounds import EVENTS_TTL
from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE, Dead, Done
from headrace.core.job.verdict import done_verdict
from headrace.errors import StoreUnavailable
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Link
from headrace.store.redis.store import RedisStore
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, parcel

GROUND = Ground()
LIMITED = Constraints(lane="a", limits=(Limit("few", 2, 60_000),))


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(redis_url)) as server:
        yield server


def keys_of(server: redis.Redis, store: RedisStore) -> list[str]:
    """All keys of the queue, also those that expire."""
    pattern = f"{{{store.namespace}:{QUEUE}*"
    return sorted(key.decode("latin-1") for key in server.scan_iter(pattern, count=1000))


async def fill(store: RedisStore) -> None:
    worker = store.consumer("worker", [QUEUE], 60)
    await GROUND.send(store, 3)
    dead, done, kept = await GROUND.take(worker, 3)
    await GROUND.settle(worker, [dead], Dead("failed", HISTORY))
    await GROUND.settle(worker, [done], DONE)
    await GROUND.settle(worker, [kept], Done(done_verdict(b"\x01"), 600_000))
    await store.append(QUEUE, [parcel(constraints=LIMITED) for _ in range(20)])
    await store.append(QUEUE, [parcel(delay_ms=60_000) for _ in range(1500)])
    await GROUND.take(worker, 1)
    await worker.close()


async def test_a_queue_that_is_removed_by_force_leaves_no_key(
    store: RedisStore, server: redis.Redis
) -> None:
    await fill(store)
    assert await store.remove(QUEUE, force=True) == 0
    assert keys_of(server, store) == []


async def test_a_worker_that_still_reads_a_removed_queue_lists_it_again(
    store: RedisStore, server: redis.Redis
) -> None:
    worker = store.consumer("worker", [QUEUE], 60)
    await GROUND.send(store)
    await GROUND.take(worker)
    assert await store.remove(QUEUE, force=True) == 0
    assert await worker.fetch(1, 0) == []
    await worker.reclaim(QUEUE, 1, last_chance=False)
    await worker.close()
    assert await store.queues() == [QUEUE]
    assert await store.remove(QUEUE) == 0
    assert keys_of(server, store) == []


async def test_an_empty_queue_that_is_removed_leaves_no_key(
    store: RedisStore, server: redis.Redis
) -> None:
    worker = store.consumer("worker", [QUEUE], 60)
    await GROUND.send(store, 3)
    await GROUND.settle(worker, await GROUND.take(worker, 3), Done(done_verdict(b""), 600_000))
    await worker.close()
    assert await store.remove(QUEUE) == 0
    assert keys_of(server, store) == []


async def test_a_removal_that_is_killed_at_any_step_is_completed_by_the_next(
    store: RedisStore, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request that a removal makes is its last one once, before it and after it."""
    call, left = Link.call, 0

    async def killed(self: Link, *command: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreUnavailable("killed")
        return await call(self, *command, **options)

    for last in itertools.count():
        await fill(store)
        left = last
        with monkeypatch.context() as patch:
            patch.setattr(Link, "call", killed)
            try:
                await store.remove(QUEUE, force=True)
                survived = True
            except StoreUnavailable:
                survived = False
        if survived:
            break
        assert await store.remove(QUEUE, force=True) in (0, None)
        lasting = [key for key in keys_of(server, store) if server.ttl(key.encode("latin-1")) == -1]
        assert lasting == [], f"after {last} requests"
    assert last > 5


async def test_a_queue_that_is_sent_to_while_it_is_removed_keeps_its_jobs(
    store: RedisStore, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await GROUND.send(store, 3)
    forget = script_stubs.forget

    async def send_first(*given: object, **named: object) -> int:
        monkeypatch.setattr(script_stubs, "forget", forget)
        await GROUND.send(store, 2)
        return await forget(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(script_stubs, "forget", send_first)
    assert await store.remove(QUEUE, force=True) == 0
    assert (await store.count(QUEUE)).waiting == 2
    assert QUEUE in await store.queues()
    worker = store.consumer("worker", [QUEUE], 60)
    assert len(await GROUND.take(worker, 2)) == 2
    await worker.close()


async def test_events_and_counters_of_a_queue_expire(
    store: RedisStore, server: redis.Redis
) -> None:
    await GROUND.send(store)
    expiring = {key for key in keys_of(server, store) if server.ttl(key.encode("latin-1")) > 0}
    keys = store.keys(QUEUE)
    assert {keys.events, keys.facts} < expiring
    assert server.ttl(keys.events) > EVENTS_TTL - 60
    assert any(key.startswith(keys.minute) for key in expiring)
