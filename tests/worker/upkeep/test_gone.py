"""Workers that died leave no names in the groups of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Headrace, State
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement, StoreConsumer, reclaim_every
from headrace.store.redis.keys import WORKERS
from headrace.store.redis.store import RedisStore
from tests.scripts import alter_scripts

LEASE = 0.3


@pytest.fixture
async def app(redis_url: str, namespace: str) -> AsyncIterator[Headrace]:
    async with Headrace(redis_url, namespace=namespace, lease=LEASE) as app:
        yield app


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three leases are enough to be gone."""
    alter_scripts(monkeypatch, "local LONG_GONE = 6000", "local LONG_GONE = 0")


async def names(app: Headrace) -> set[str]:
    assert isinstance(app.store, RedisStore)
    stream = app.store.keys("default").ready
    found = await app.store.links().ask.call("XINFO", "CONSUMERS", stream, WORKERS, key=stream)
    return {bytes(info[1]).decode().partition("~")[0] for info in found}


async def look(consumer: StoreConsumer) -> int:
    """Live on for a while: how many jobs were taken over."""
    await asyncio.sleep(reclaim_every(LEASE))
    found = await consumer.reclaim("default", 10, last_chance=True)
    await consumer.renew(found)
    return len(found)


async def test_those_who_died_are_forgotten_once_they_hold_nothing(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job, _ = await app.enqueue_many([work.call(), work.call()])
    idle, holding, living = (
        app.store.consumer(name, ["default"], LEASE) for name in ("idle", "holding", "living")
    )
    assert len(await holding.fetch(1, 1.0)) == 1
    (delivery,) = await idle.fetch(1, 1.0)
    delivery.job_id = decode_envelope(delivery.envelope).job_id
    await idle.settle("default", [Settlement(delivery, DONE)])
    assert await names(app) == {"idle", "holding"}
    taken_over = 0
    async with asyncio.timeout(60):
        while {"idle", "holding"} & await names(app):
            # Nobody is forgotten while it holds a job.
            assert taken_over or "holding" in await names(app)
            taken_over += await look(living)
    assert taken_over >= 1
    assert "living" in await names(app)
    assert await job.status() is State.RUNNING
    for consumer in (idle, holding, living):
        await consumer.close()
