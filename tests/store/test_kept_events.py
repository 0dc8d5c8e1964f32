"""Only so many facts are kept, and a reader who comes too late is told so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.core.job.history_rules import QueueRetention
from headrace.store.contract import Store
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import RecordedFact
from headrace.testing import ManualClock
from headrace.testing.conformance.ground import QUEUE, parcel

KEPT = 100


@pytest.fixture(params=["redis", "sqlite"])
async def store(
    request: pytest.FixtureRequest,
    namespace: str,
    tmp_path: Path,
) -> AsyncIterator[Store]:
    """A store that keeps few facts."""
    store: RedisStore | SqliteStore
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        store = RedisStore(url, namespace=namespace, crash_limit=3)
    else:
        url = f"sqlite:///{tmp_path}/jobs.db"
        store = SqliteStore(url, namespace="test", crash_limit=3, clock=ManualClock())
    store.history_rules.queues.set_default(QueueRetention(events=KEPT))
    await store.open()
    yield store
    await store.close()


async def send(store: Store, times: int) -> None:
    for _ in range(times):
        await store.append(QUEUE, [parcel() for _ in range(20)])


async def all_after(store: Store, cursor: str) -> list[RecordedFact]:
    found: list[RecordedFact] = []
    while page := await store.events(QUEUE, cursor, limit=30):
        found += page
        cursor = page[-1].cursor
    return found


async def test_the_latest_facts_are_kept(store: Store) -> None:
    await send(store, 20)
    found = await all_after(store, "")
    assert len(found) + 20 >= KEPT
    assert len(found) <= KEPT + 20
    assert {event.fact.kind for event in found} == {"sent"}


async def test_a_reader_who_comes_too_late_hears_so_once(store: Store) -> None:
    (now,) = await store.events(QUEUE, "$")
    await send(store, 2)
    *_, seen = await all_after(store, now.cursor)
    await send(store, 20)
    first, *rest = await all_after(store, seen.cursor)
    assert (first.fact.kind, first.fact.job_id) == ("lost", b"")
    assert {event.fact.kind for event in rest} == {"sent"}
    kept = await all_after(store, "")
    assert [event.fact for event in rest] == [event.fact for event in kept]


async def test_a_reader_who_keeps_up_hears_nothing_of_it(store: Store) -> None:
    (now,) = await store.events(QUEUE, "$")
    cursor, seen = now.cursor, 0
    for _ in range(30):
        await send(store, 1)
        found = await all_after(store, cursor)
        assert [event.fact.kind for event in found] == ["sent"] * 20
        cursor, seen = found[-1].cursor, seen + 20
    assert seen == 600


async def test_one_large_batch_is_kept_whole(store: Store) -> None:
    await store.append(QUEUE, [parcel() for _ in range(3 * KEPT)])
    assert len(await all_after(store, "")) == 3 * KEPT
    await send(store, 1)
    assert len(await all_after(store, "")) >= 20
