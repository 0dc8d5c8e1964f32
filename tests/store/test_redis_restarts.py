"""What a Redis server forgets when it restarts or when its replica takes over: how much a group was
given. The backlog is right all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement
from headrace.store.redis.store import RedisStore
from headrace.store.topics import Group, GroupState, Position
from headrace.testing.conformance.ground import parcel
from headrace.testing.conformance.topics.topic_ground import event
from tests.faults.crew import eventually
from tests.servers import RedisServer

LOG, QUEUE = "@orders", "ledger@orders"
START = Position("start")
DURABLE = {"appendonly": "yes", "appendfsync": "always"}


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, DURABLE) as server:
        yield server


@asynccontextmanager
async def opened(server: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url, namespace="shop", crash_limit=3)
    await store.open()
    yield store
    await store.close()


async def handle(store: RedisStore, queue: str, count: int) -> None:
    member = store.consumer("one", [queue], 30.0)
    left = count
    while left:
        found = await member.fetch(left, 1)
        await member.settle(queue, [Settlement(each, DONE) for each in found])
        left -= len(found)
    await member.close()


async def state_of(store: RedisStore) -> GroupState:
    (state,) = (await store.groups([LOG]))[LOG]
    return state


async def fill(store: RedisStore, *, count: int, handled: int) -> None:
    await store.join(QUEUE, Group(), START)
    await store.publish(LOG, [event() for _ in range(count)])
    await handle(store, QUEUE, handled)


@pytest.mark.parametrize("handled", [100, 60])
async def test_a_group_is_no_more_behind_after_a_restart_than_before(
    durable: RedisServer, handled: int
) -> None:
    async with opened(durable) as store:
        await fill(store, count=100, handled=handled)
        assert (await state_of(store)).behind == 100 - handled
    durable.kill()
    durable.start()
    async with opened(durable) as store:
        state = await state_of(store)
        assert (state.behind, state.counts.waiting) == (100 - handled, 100 - handled)
        assert (await store.count(QUEUE)).waiting == 100 - handled


async def test_a_worker_has_the_server_count_again_after_a_restart(durable: RedisServer) -> None:
    async with opened(durable) as store:
        await fill(store, count=50, handled=30)
    durable.kill()
    durable.start()
    async with opened(durable) as store:
        await store.join(QUEUE, Group(), START)
        # As if nobody had read for a while: the server is asked anew only now and then.
        groups = store.keys(QUEUE).groups
        await store.links().send.call("HSET", groups, "ledger", "0 skip 1", key=groups)
        await handle(store, QUEUE, 10)
        assert _lag(durable, store) == 10
        await store.publish(LOG, [event() for _ in range(5)])
        assert (await state_of(store)).behind == _lag(durable, store) == 15


async def test_a_group_is_no_more_behind_on_the_replica_that_took_over(tmp_path: Path) -> None:
    for name in ("master", "replica"):
        (tmp_path / name).mkdir()
    with RedisServer(tmp_path / "master") as master:
        follows = {"replicaof": f"127.0.0.1 {master.port}"}
        with RedisServer(tmp_path / "replica", follows) as replica:
            await eventually(
                "the replica follows", lambda: b"master_link_status:up" in _replication(replica)
            )
            async with opened(master) as store:
                await fill(store, count=100, handled=70)
                await eventually(
                    "the replica has it all", lambda: _offset(replica) >= _offset(master)
                )
            master.kill()
            replica.ask("REPLICAOF", "NO", "ONE")
            async with opened(replica) as store:
                assert _lag(replica, store) == 100
                assert (await state_of(store)).behind == 30
                await handle(store, QUEUE, 30)
                assert (await state_of(store)).behind == 0


async def test_jobs_are_counted_the_same_after_a_restart(durable: RedisServer) -> None:
    async with opened(durable) as store:
        await store.append("mail", [parcel() for _ in range(20)])
        await handle(store, "mail", 15)
        before = await store.count("mail")
    durable.kill()
    durable.start()
    async with opened(durable) as store:
        assert await store.count("mail") == before
        assert before.waiting == 5


def _lag(server: RedisServer, store: RedisStore) -> int:
    """What the server itself says."""
    (group,) = server.ask("XINFO", "GROUPS", store.keys(QUEUE).log)
    lag: int = dict(zip(group[::2], group[1::2], strict=True))[b"lag"]
    return lag


def _replication(server: RedisServer) -> bytes:
    info: bytes = server.ask("INFO", "replication")
    return info


def _offset(server: RedisServer) -> int:
    fields = dict(line.split(b":", 1) for line in _replication(server).split() if b":" in line)
    name = b"slave_repl_offset" if b"slave_repl_offset" in fields else b"master_repl_offset"
    return int(fields[name])
