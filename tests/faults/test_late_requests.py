"""Requests that are answered wrongly, or arrive after their own repeat, are applied once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
import redis

from headrace import EnqueueUnknown, StoreUnavailable
from headrace.client.sender import Sender
from headrace.store.values import IdempotencyKey
from headrace.testing.conformance.ground import QUEUE, parcel
from tests.faults.changes import CHANGES, Append, Change, delivered_late, prepared, spoiled
from tests.faults.proxy import Fault, Proxy, calls

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


async def test_other_requests_may_come_between_a_request_and_its_repeat(
    proxy: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(Append, redis_url, proxy.url, namespace) as change:
        for fault in (Fault.SWALLOW, Fault.LATE):
            idempotency, item = IdempotencyKey(), parcel()
            proxy.spoil(fault, calls("append"))
            with pytest.raises(StoreUnavailable):
                await change.store.append(QUEUE, [item], idempotency=idempotency)
            others = await change.ground.send(change.store, 3)
            again = await change.store.append(QUEUE, [item], repeat=True, idempotency=idempotency)
            assert again == {}
            assert sorted(await change.run_all()) == sorted([item.key, *others])
        await proxy.deliver_late()
        assert await change.run_all() == []


async def test_a_send_that_was_given_up_comes_before_the_next_or_never(
    proxy: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(Append, redis_url, proxy.url, namespace) as change:
        sender, lost, next_one = Sender(change.store), parcel(), parcel()
        proxy.spoil(Fault.LATE, calls("append"), times=100)
        with pytest.raises(EnqueueUnknown):
            await sender.send(QUEUE, [lost])
        proxy.spoil(Fault.LATE, b"", times=0)
        await sender.send(QUEUE, [next_one])
        assert len(await proxy.deliver_late()) > 1
        assert await change.run_all() == [next_one.key]
