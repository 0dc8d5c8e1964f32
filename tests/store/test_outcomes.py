"""Each store knows every outcome that can be written, and refuses any other."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import (
    DONE,
    WRITTEN,
    Cancelled,
    Dead,
    Done,
    Held,
    Released,
    Retried,
    Written,
    task_gate,
)
from headrace.core.job.state import Reason
from headrace.errors import StoreError
from headrace.store.contract import Settlement
from headrace.store.redis import script_stubs, settlement_batch
from headrace.store.redis.settlement_batch import Batch
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.jobs import settlement
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, parcel
from tests.house.lua import source

GROUND = Ground()
MOVED: list[Written] = [
    Retried(0, HISTORY),
    Dead(Reason.REJECTED, HISTORY),
    Cancelled(),
    Held(task_gate("task"), HISTORY),
    Released(),
]


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("known", [settlement.KNOWN, settlement_batch.KNOWN])
def test_a_store_knows_every_outcome_that_can_be_written(known: frozenset[type]) -> None:
    assert known == set(WRITTEN)


def test_a_script_knows_every_outcome_that_python_sends() -> None:
    """Those that are done go in columns."""
    assert {type(each) for each in MOVED} | {Done} == set(WRITTEN)
    listed = re.search(r"KINDS = \{(.*)\}", source("settle"))
    assert listed is not None
    sent = {
        settlement_batch.move_of(Settlement(LeasedDelivery(QUEUE, 1, b""), each))[0]
        for each in MOVED
    }
    assert sent == set(re.findall(r"(\w+) = true", listed[1]))


async def test_a_script_refuses_an_outcome_that_it_does_not_know_before_it_writes(
    store: RedisStore,
) -> None:
    """As of a Python that is newer than the script."""
    await GROUND.send(store, 2)
    worker = store.consumer("worker", [QUEUE], 60)
    first, second = await GROUND.take(worker, 2)
    batch = Batch([Settlement(first, DONE), Settlement(second, Retried(0, HISTORY))], None)
    with pytest.raises(StoreError, match="parked is not known"):
        await script_stubs.settle(
            store.links().send,
            store.keys(QUEUE),
            events=0,
            consumer="worker",
            epoch=batch.epoch,
            checked=False,
            finished=b"",
            facts_count=0,
            facts=b"",
            counts=b"",
            done=len(batch.done),
            kept=0,
            labels=b"",
            constrained=False,
            moved=batch.moved,
            from_log=0,
            shelves=0,
            bounded=False,
            blocks=["parked" if each == "retry" else each for each in batch.blocks(False)],
            idempotency=IdempotencyKey(),
        )
    assert await store.count(QUEUE) == Counts(running=2)
    assert await worker.renew([first, second]) == []
    assert await GROUND.settle(worker, [first, second], DONE) == []
    await worker.close()


async def test_a_script_refuses_an_end_that_it_does_not_know_before_it_writes(
    store: RedisStore,
) -> None:
    before = parcel()
    after = parcel(parents=[before])
    await store.append(QUEUE, [before, after])
    with pytest.raises(StoreError, match="parked is not known"):
        await script_stubs.arrive(
            store.links().send,
            store.keys(QUEUE),
            events=0,
            arrivals=[after.job_id, before.job_id, "parked", b"", 0, 0],
        )
    assert await store.count(QUEUE) == Counts(waiting=1, blocked=1)
