"""When all jobs have ended, nothing is left of them."""

from __future__ import annotations

import msgspec

from headrace.core.job.constraints import Constraints, Gathering, Limit
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Held, Retried, task_gate
from headrace.core.job.parcel import Child, Parcel, Tick
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer, reclaim_every
from headrace.store.values import Control, Counts, Report
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    Ground,
    ids_of,
    kept,
    known,
    parcel,
)
from headrace.testing.conformance.jobs.settlement import DEAD

FAR = "far-away"
QUEUES = [QUEUE, FAR]
BRIEF = 100
LIMITS = (Limit("brief", 3, BRIEF), Limit("paced", 4, BRIEF, burst=2))


def with_constraints() -> list[Parcel]:
    """Jobs of every kind, several of each."""
    constraints = [
        Constraints(),
        Constraints(priority=5, ttl_ms=BRIEF),
        Constraints(lane="a", ttl_ms=BRIEF),
        Constraints(lane="b", width=2, ttl_ms=BRIEF),
        Constraints(limits=LIMITS, ttl_ms=BRIEF),
        Constraints(limits=LIMITS[:1], lane="c", priority=2, ttl_ms=BRIEF),
        Constraints(unique="one", ttl_ms=BRIEF),
        Constraints(unique="lasting", unique_for_ms=BRIEF, ttl_ms=BRIEF),
        Constraints(gathering=Gathering("batch:a", 2, BRIEF), ttl_ms=BRIEF),
        Constraints(gathering=Gathering("batch:b", 9, BRIEF, 50), priority=2, ttl_ms=BRIEF),
        Constraints(unique="debounced", debounced=True, ttl_ms=BRIEF),
    ]
    return [
        parcel(constraints=each, delay_ms=20 if each.debounced else None)
        for each in constraints
        for _ in "123"
    ]


def flow(name: str) -> list[tuple[str, Parcel]]:
    """Three jobs in a row, the middle one in another queue; children first."""
    constraints = Constraints(ttl_ms=BRIEF)
    last = parcel(f"{name} 3", parents=[parcel(f"{name} 2")], constraints=constraints)
    middle = parcel(f"{name} 2", parents=[parcel(f"{name} 1")], constraints=constraints)
    middle = msgspec.structs.replace(middle, children=(Child(QUEUE, last.job_id),))
    first = parcel(f"{name} 1", children=[Child(FAR, middle.job_id)], constraints=constraints)
    return [(QUEUE, last), (FAR, middle), (QUEUE, first)]


class LeftoversConformance(Ground):
    async def nothing_remains(self, store: Store, *workers: StoreConsumer) -> None:
        await self.pass_time(max(BRIEF / 1000 * 2, reclaim_every(LEASE) * 1.1))
        # As any worker does now and then: expired values may have to be swept.
        for queue in QUEUES:
            assert await workers[0].reclaim(queue, 1, last_chance=True) == []
            await workers[0].promote(queue)
        for worker in workers:
            await worker.close()
        for queue in QUEUES:
            assert await store.count(queue) == Counts()
            assert await store.control(queue) == Control()
            for state in State:
                assert (await store.browse(queue, state)).job_ids == []
        assert await self.left_behind(store) == []

    async def purge_dead(self, store: Store, queue: str = QUEUE) -> None:
        job_ids = [job.job_id for job in (await store.dead(queue, limit=1000)).jobs]
        assert await store.purge(queue, job_ids) == [True] * len(job_ids)

    async def test_nothing_is_left_of_jobs_that_are_done(self, store: Store) -> None:
        sent = with_constraints()
        twins = await store.append(QUEUE, sent)
        worker = self.worker(store, queues=QUEUES)
        ran = await self.run_all(store, worker, kept(seconds=BRIEF / 1000), at_once=4)
        assert len(ran) == len(sent) - len(twins)
        await self.nothing_remains(store, worker)

    async def test_nothing_is_left_of_jobs_that_are_cancelled(self, store: Store) -> None:
        sent = [
            msgspec.structs.replace(item, constraints=brief(item)) for item in with_constraints()
        ]
        await store.append(QUEUE, sent)
        await store.cancel(QUEUE, [item.job_id for item in sent])
        worker = self.worker(store, queues=QUEUES)
        assert await self.run_all(store, worker) == []
        await self.nothing_remains(store, worker)

    async def test_nothing_is_left_of_jobs_that_died_and_were_purged(self, store: Store) -> None:
        await store.append(QUEUE, with_constraints())
        worker = self.worker(store, queues=QUEUES)
        dead = msgspec.structs.replace(DEAD, ttl_ms=BRIEF)
        ran = await self.run_all(store, worker, dead, at_once=4)
        assert await store.replay(QUEUE, ran) == [True] * len(ran)
        assert sorted(await self.run_all(store, worker, dead)) == sorted(ran)
        await self.purge_dead(store)
        await self.nothing_remains(store, worker)

    async def test_nothing_is_left_of_flows(self, store: Store) -> None:
        for name in ("good", "bad", "cancelled", "torn"):
            for queue, item in flow(name):
                await store.append(queue, [item])
        await store.cancel(QUEUE, [parcel("cancelled 1").job_id])
        await store.cancel(FAR, [parcel("torn 2").job_id])
        worker = self.worker(store, queues=QUEUES)
        first = {delivery.job_id: delivery for delivery in await self.take(worker, 3)}
        dead = msgspec.structs.replace(DEAD, ttl_ms=BRIEF)
        await self.settle(worker, [first.pop(parcel("bad 1").job_id)], dead)
        await self.settle(worker, list(first.values()), kept(seconds=0.1))
        ran = await self.run_all(store, worker, queues=QUEUES)
        assert ran == [parcel("good 2").job_id, parcel("good 3").job_id]
        for queue in QUEUES:
            await self.purge_dead(store, queue)
        # Those that waited for purged jobs hear of it, in other queues too.
        await self.upkeep(store, worker, QUEUES)
        await self.nothing_remains(store, worker)

    async def test_nothing_is_left_of_what_jobs_went_through(self, store: Store) -> None:
        """Retries, releases, crashes, pauses, reports, once markers, ticks and key-value pairs."""
        sent = [
            parcel(constraints=Constraints(lane="a", limits=LIMITS, priority=1, ttl_ms=BRIEF)),
            parcel(),
        ]
        sent += [
            parcel("tick-1", tick=Tick("nightly", 1)),
            parcel(constraints=Constraints(unique="one")),
        ]
        await store.append(QUEUE, sent)
        worker = self.worker(store, queues=QUEUES)
        dying = self.worker(store)
        await self.take(dying, 4)
        await store.pause(QUEUE, "task")
        again = await self.reclaim(worker, 4)
        for delivery in again:
            await self.report_progress(store, delivery.job_id)
        await self.settle(worker, again[:2], Held(task_gate("task"), HISTORY))
        await self.settle(worker, again[2:3], RELEASED)
        await self.settle(worker, again[3:], Retried(10, HISTORY))
        await store.resume(QUEUE, "task")
        ran = ids_of(rest := known(await worker.reclaim(QUEUE, 9, last_chance=True)))
        if rest:
            await self.settle(worker, rest, DONE)
        ran += await self.run_all(store, worker, DONE)
        assert sorted(ran) == sorted(ids_of(again))
        await store.kv_set("space", "name", None)
        assert await self.look_regularly(worker, LEASE) == []
        await self.nothing_remains(store, worker, dying)

    async def report_progress(self, store: Store, job_id: JobId) -> None:
        await store.report(QUEUE, [Report(job_id, b"\x91\x01")])
        await store.once_set(QUEUE, job_id, "charge", b"\x01")
        await store.kv_set("space", "name", job_id)


def brief(item: Parcel) -> Constraints:
    return msgspec.structs.replace(item.constraints, ttl_ms=BRIEF)
