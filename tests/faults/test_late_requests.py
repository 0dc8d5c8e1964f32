"""Requests that are answered wrongly, or arrive after their own repeat, are applied once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
import redis

from tests.faults.changes import CHANGES, Change, delivered_late, prepared, spoiled
from tests.faults.proxy import Fault, Proxy

of_each_change = pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(redis_url)) as server:
        yield server


@pytest.fixture
async def proxy(server: redis.Redis) -> AsyncIterator[Proxy]:
    async with Proxy(server.connection_pool.connection_kwargs["port"]) as proxy:
        yield proxy


@of_each_change
async def test_a_request_that_arrives_after_its_repeat_changes_nothing(
    kind: type[Change], proxy: Proxy, server: redis.Redis, redis_url: str, namespace: str
) -> None:
    async with prepared(kind, redis_url, proxy.url, namespace) as change:
        await delivered_late(change, proxy, server)


@pytest.mark.parametrize("fault", [Fault.SWALLOW, Fault.CUT, Fault.FALSIFY])
@of_each_change
async def test_a_request_whose_answer_is_spoiled_is_applied_once(
    kind: type[Change], fault: Fault, proxy: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(kind, redis_url, proxy.url, namespace) as change:
        await spoiled(change, proxy, fault)
