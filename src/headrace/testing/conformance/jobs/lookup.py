"""Reading jobs, dead ones above all."""

from __future__ import annotations

from headrace.core.job.history import History, decode_history
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


class LookupConformance(Ground):
    async def add_dead(self, store: Store, count: int) -> list[JobId]:
        await self.send(store, count)
        worker = self.worker(store)
        taken = await self.take(worker, count)
        for delivery in taken:
            await self.settle(worker, [delivery], DEAD)
        return ids_of(taken)

    async def test_a_store_says_what_it_is(self, store: Store) -> None:
        described = await store.describe()
        assert described.kind
        assert described.version

    async def test_an_unknown_job_is_nowhere(self, store: Store) -> None:
        assert await store.get(QUEUE, [parcel().job_id]) == [None]

    async def test_many_jobs_are_looked_at_together(self, store: Store) -> None:
        (waiting,) = await self.send(store)
        later = parcel(delay_ms=60_000)
        await store.append(QUEUE, [later])
        found = await store.get(QUEUE, [later.job_id, b"=nobody", waiting])
        assert [item and item.state for item in found] == [State.SCHEDULED, None, State.WAITING]

    async def test_bodies_are_told_when_asked_for(self, store: Store) -> None:
        items = [parcel(), parcel(delay_ms=60_000)]
        await store.append(QUEUE, items)
        found = await store.get(QUEUE, [item.job_id for item in items], bodies=True)
        assert [item and item.envelope for item in found] == [item.envelope for item in items]

    async def test_dead_jobs_are_paged_latest_first(self, store: Store) -> None:
        dead = await self.add_dead(store, 7)
        pages, cursor = [], ""
        while True:
            page = await store.dead(QUEUE, cursor, limit=3)
            pages.append([job.job_id for job in page.jobs])
            cursor = page.cursor
            if not cursor:
                break
        assert [key for page in pages for key in page] == dead[::-1]
        assert all(len(page) <= 3 for page in pages)

    async def test_each_dead_job_has_the_cursor_of_those_before_it(self, store: Store) -> None:
        dead = await self.add_dead(store, 5)
        (state,) = await store.survey([QUEUE])
        found = (await store.dead(QUEUE)).jobs
        assert state.last_died_ms == found[0].died_ms
        for at, job in enumerate(found):
            behind = [each.job_id for each in (await store.dead(QUEUE, job.cursor)).jobs]
            assert behind == dead[::-1][at + 1 :]
        await store.purge(QUEUE, dead)
        assert (await store.survey([QUEUE]))[0].last_died_ms is None

    async def test_a_dead_job_is_replayed_once(self, store: Store) -> None:
        (key,) = await self.add_dead(store, 1)
        before = await store.time_ms()
        assert await store.replay(QUEUE, [key], by="ann") == [True]
        assert await store.replay(QUEUE, [key], by="bob") == [False]
        (delivery,) = await self.take(self.worker(store))
        assert (delivery.job_id, delivery.count) == (key, 1)
        # Its earlier history goes along, and does not count.
        history = decode_history(delivery.history)
        assert before <= history.replayed_ms <= await store.time_ms()
        assert history == History((), 0, 0, DEAD.history, history.replayed_ms, "ann")
        assert (await store.count(QUEUE)).dead == 0

    async def test_a_replayed_job_has_no_verdict_any_more(self, store: Store) -> None:
        (key,) = await self.add_dead(store, 1)
        await store.replay(QUEUE, [key])
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert (snapshot.state, snapshot.verdict) == (State.WAITING, b"")

    async def test_only_dead_jobs_are_replayed_or_purged(self, store: Store) -> None:
        (waiting,) = await self.send(store)
        keys = [waiting, b"=nobody"]
        assert await store.replay(QUEUE, keys) == [False, False]
        assert await store.purge(QUEUE, keys) == [False, False]
        assert await store.count(QUEUE) == Counts(waiting=1)

    async def test_a_purged_job_is_forgotten(self, store: Store) -> None:
        first, second = await self.add_dead(store, 2)
        assert await store.purge(QUEUE, [first]) == [True]
        assert await store.purge(QUEUE, [first]) == [False]
        assert [job.job_id for job in (await store.dead(QUEUE)).jobs] == [second]
        assert await store.get(QUEUE, [first]) == [None]
