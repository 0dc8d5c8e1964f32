"""What a look at many queues costs a Redis server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.store.redis.store import RedisStore
from headrace.store.topics import Group, Position
from headrace.testing.conformance.ground import parcel
from tests.servers import RedisServer

QUEUES = [f"queue-{number}" for number in range(180)]
NOBODY = parcel().job_id


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_server.url, namespace="shop", crash_limit=3)
    await store.open()
    yield store
    await store.close()


async def scripts_run(store: RedisStore) -> int:
    info = await store.links().ask.call("INFO", "commandstats")
    found = re.search(rb"cmdstat_evalsha:calls=(\d+)", info)
    return int(found[1]) if found else 0


async def cost(store: RedisStore, asked: Awaitable[Any]) -> int:
    """How many scripts the server had to run."""
    before = await scripts_run(store)
    await asked
    return await scripts_run(store) - before


async def test_one_call_looks_at_many_queues(store: RedisStore) -> None:
    await store.append(QUEUES[0], [parcel()])
    minute = await store.time_ms() // 60_000
    assert await cost(store, store.survey(QUEUES)) == 1
    assert await cost(store, store.locate(QUEUES, NOBODY)) == 1
    assert await cost(store, store.stats(QUEUES, minute - 9)) == 1


async def test_a_call_reads_only_so_many_minutes(store: RedisStore) -> None:
    minute = await store.time_ms() // 60_000
    calls = await cost(store, store.stats(QUEUES, minute - 119))
    assert 180 * 120 // 3000 <= calls <= 180 * 120 // 3000 + 1


async def test_the_groups_of_many_logs_take_three_calls(store: RedisStore) -> None:
    logs = [f"@orders-{number}" for number in range(60)]
    for log in logs:
        for number in range(3):
            await store.join(f"group-{number}{log}", Group(), Position("new"))
    assert await cost(store, store.lengths(logs)) == 1
    assert await cost(store, store.groups(logs)) == 3


@pytest.mark.parametrize(
    ("receipt", "ready_ms"),
    [
        (b"1731-0", 1731),
        (b"5/1731-2", 1731),
        (b"@/1731-0", 1731),
        (b"", 0),
        (b"5/", 0),
        (b"soon-0", 0),
        ("1731-0", 0),
        (7, 0),
    ],
)
async def test_a_receipt_says_when_a_job_began_to_wait(
    redis_url: str, receipt: bytes | str | int, ready_ms: int
) -> None:
    worker = RedisStore(redis_url, namespace="shop", crash_limit=3).consumer("one", ["mail"], 1.0)
    assert worker.ready_ms(LeasedDelivery("mail", receipt, b"")) == ready_ms
