"""Queues that nobody uses any more are forgotten."""

from __future__ import annotations

from headrace.core.bounds import UNUSED_QUEUE_TTL
from headrace.core.job.outcome import DONE, Dead
from headrace.core.job.state import State
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock
from headrace.testing.conformance.ground import HISTORY, Ground
from headrace.worker.upkeep.janitor import Janitor

GROUND = Ground()
DAY = 86_400.0


async def use(store: SqliteStore, *queues: str) -> None:
    for queue in queues:
        worker = store.consumer("worker", [queue], 60)
        await GROUND.send(store, queue=queue)
        await GROUND.settle(worker, await GROUND.take(worker), DONE)
        await worker.close()


async def test_a_queue_that_nobody_used_for_a_week_is_forgotten(
    store: SqliteStore, clock: ManualClock
) -> None:
    await use(store, "tenant-1", "tenant-2", "own")
    janitor = Janitor(store, ["own"])
    assert await janitor.tidy() == []
    clock.advance(UNUSED_QUEUE_TTL - DAY)
    await use(store, "tenant-2")
    clock.advance(DAY)
    assert await janitor.tidy() == ["tenant-1"]
    assert await store.queues() == ["own", "tenant-2"]


async def test_a_queue_with_jobs_is_kept_and_its_old_events_are_not(
    store: SqliteStore, clock: ManualClock
) -> None:
    await use(store, "tenant")
    await GROUND.send(store, queue="tenant")
    (job_id,) = (await store.browse("tenant", State.WAITING)).job_ids
    clock.advance(UNUSED_QUEUE_TTL)
    worker = store.consumer("worker", ["tenant"], 60)
    await GROUND.settle(worker, await GROUND.take(worker), Dead("failed", HISTORY))
    await worker.close()
    clock.advance(UNUSED_QUEUE_TTL)
    assert len(await store.events("tenant")) > 2
    assert await Janitor(store, []).tidy() == []
    assert [event.fact.job_id for event in await store.events("tenant")] == [job_id]
    assert (await store.count("tenant")).dead == 1


async def test_one_worker_an_hour_looks(store: SqliteStore, clock: ManualClock) -> None:
    await use(store, "tenant")
    clock.advance(UNUSED_QUEUE_TTL)
    first, second = Janitor(store, []), Janitor(store, [])
    for each in (first, second):
        assert await each.step() == 60, "a worker that has just come leaves it to others"
    await first.step()
    assert await store.queues() == []
    await use(store, "tenant")
    clock.advance(UNUSED_QUEUE_TTL)
    await second.step()
    assert await store.queues() == []
    await use(store, "tenant")
    await store.kv_set("upkeep", "janitor", b"1", ttl=2 * UNUSED_QUEUE_TTL)
    clock.advance(UNUSED_QUEUE_TTL)
    await first.step()
    assert await store.queues() == ["tenant"]
