"""Every request that changes something, two hundred times over a wire that fails in each way."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import redis

from tests.faults.changes import (
    CHANGES,
    Change,
    delivered_late,
    fallen_into_a_hole,
    prepared,
    spoiled,
)
from tests.faults.proxy import Fault, Proxy

TIMES = 200
TOGETHER = 25

of_each_change = pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
@of_each_change
async def test_a_request_is_applied_once_whatever_happens_to_it(
    kind: type[Change],
    fault: Fault,
    wire: Proxy,
    redis_client: redis.Redis,
    redis_url: str,
    namespace: str,
) -> None:
    for number in range(TIMES):
        async with prepared(kind, redis_url, wire.url, f"{namespace}-{number}") as change:
            if fault is Fault.LATE:
                await delivered_late(change, wire, redis_client)
            else:
                await spoiled(change, wire, fault)


@pytest.mark.parametrize("begin", range(0, TIMES, TOGETHER))
async def test_requests_that_fall_into_a_black_hole_are_applied_once(
    begin: int, wire: Proxy, redis_url: str, namespace: str
) -> None:
    async with AsyncExitStack() as stack:
        changes = [
            await stack.enter_async_context(
                prepared(kind, redis_url, wire.url, f"{namespace}-{number}-{kind.__name__}")
            )
            for kind in CHANGES
            for number in range(begin, begin + TOGETHER)
        ]
        wire.black_hole()
        given_up = asyncio.Barrier(len(changes) + 1)
        async with asyncio.TaskGroup() as asking:
            for change in changes:
                asking.create_task(fallen_into_a_hole(change, given_up))
            await given_up.wait()
            wire.let_pass()
