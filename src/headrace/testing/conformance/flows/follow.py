"""Following a job that may have ended already."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, Outcome
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.flow_values import Cause, encode_cause
from headrace.store.values import Arrival, Counts, JobEnding
from headrace.testing.conformance.flows.joins import inputs_of, linked
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD


class FollowConformance(Ground):
    async def blocked(self, store: Store, parent: Parcel) -> Parcel:
        child = parcel(parents=[parent])
        await store.append(QUEUE, [child])
        return child

    async def test_one_may_follow_a_job_that_lives(self, store: Store) -> None:
        parent = parcel()
        await store.append(QUEUE, [parent])
        child = await self.blocked(store, parent)
        assert await store.follow(QUEUE, parent.job_id, [Child(QUEUE, child.job_id)]) is None
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        assert inputs_of((await self.take(worker))[0]) == [7]

    async def test_who_follows_a_job_that_has_ended_is_told_how(self, store: Store) -> None:
        sent = await self.send(store, 5)
        worker = self.worker(store)
        taken = await self.take(worker, 4)
        outcomes: list[Outcome] = [kept(b"\x07"), DEAD, CANCELLED, DONE]
        for delivery, outcome in zip(taken, outcomes, strict=True):
            await self.end(store, worker, [delivery], outcome)
        await store.cancel(QUEUE, sent[4:])
        child = [Child(QUEUE, b"=child")]
        endings = [await store.follow(QUEUE, key, child) for key in sent]
        assert endings == [
            JobEnding(State.DONE, b"\x07"),
            JobEnding(State.DEAD, encode_cause(Cause(QUEUE, sent[1]))),
            JobEnding(State.CANCELLED),
            # The store no longer knows this one.
            JobEnding(State.DONE),
            JobEnding(State.CANCELLED),
        ]

    async def test_a_dead_job_is_dead_even_without_its_verdict(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        bare = msgspec.structs.replace(DEAD, verdict=b"", ttl_ms=0)
        await self.settle(worker, await self.take(worker), bare)
        ending = await store.follow(QUEUE, key, [Child(QUEUE, b"=c")])
        assert ending == JobEnding(State.DEAD, encode_cause(Cause(QUEUE, key)))

    async def test_an_unknown_job_counts_as_done(self, store: Store) -> None:
        ending = await store.follow(QUEUE, b"=nobody", [Child(QUEUE, b"=child")])
        assert ending == JobEnding(State.DONE)

    async def test_telling_twice_is_telling_once(self, store: Store) -> None:
        first, second = parcel(), parcel()
        child = parcel(parents=[first, second])
        await store.append(QUEUE, [child])
        arrival = Arrival(child.job_id, first.job_id, JobEnding(State.DONE, b"\x01"))
        await store.arrive(QUEUE, [arrival, arrival])
        await store.arrive(QUEUE, [arrival])
        assert (await self.snapshot(store, child.job_id)).state is State.BLOCKED
        await store.arrive(
            QUEUE, [Arrival(child.job_id, second.job_id, JobEnding(State.DONE, b"\x02"))]
        )
        worker = self.worker(store)
        taken = await self.take(worker)
        assert inputs_of(taken[0]) == [1, 2]
        await store.arrive(QUEUE, [arrival])
        await self.settle(worker, taken, DONE)
        await store.arrive(QUEUE, [arrival])
        assert await store.get(QUEUE, [child.job_id]) == [None]
        await self.nothing_left(worker)

    async def test_it_can_be_asked_who_was_told_of_what(self, store: Store) -> None:
        first, second, other = parcel(), parcel(), parcel()
        child = parcel(parents=[first, second])
        await store.append(QUEUE, [child])
        await store.arrive(
            QUEUE, [Arrival(child.job_id, first.job_id, JobEnding(State.DONE, b"\x01"))]
        )
        pairs = [(child.job_id, each.job_id) for each in (first, second, other)]
        assert await store.arrived(QUEUE, [*pairs, (other.job_id, first.job_id)]) == [
            True, False, False, False,
        ]  # fmt: skip
        assert await store.arrived("never", pairs[:1]) == [False]

    async def test_news_for_unknown_jobs_is_ignored(self, store: Store) -> None:
        (plain,) = await self.send(store)
        ending = JobEnding(State.DEAD)
        await store.arrive(QUEUE, [Arrival(key, b"=p", ending) for key in (b"=nobody", plain)])
        assert await store.count(QUEUE) == Counts(waiting=1)

    @pytest.mark.parametrize("outcome", [kept(b"\x07"), DEAD], ids=["done", "dead"])
    async def test_a_job_sent_again_tells_its_children_how_it_ended(
        self, store: Store, outcome: Outcome
    ) -> None:
        parent, worker = parcel("known"), self.worker(store)
        await store.append(QUEUE, [parent], may_exist=True)
        await self.settle(worker, await self.take(worker), outcome)
        child = await self.blocked(store, parent)
        again = linked(parent, child)
        assert await store.append(QUEUE, [again], may_exist=True) == {0: parent.job_id}
        if outcome is DEAD:
            assert (await self.snapshot(store, child.job_id)).reason == "parent_failed"
        else:
            assert inputs_of((await self.take(worker))[0]) == [7]

    async def test_a_job_sent_again_brings_its_children_while_it_lives(self, store: Store) -> None:
        parent, worker = parcel("known"), self.worker(store)
        await store.append(QUEUE, [parent], may_exist=True)
        children = [await self.blocked(store, parent) for _ in range(2)]
        for child in children:
            again = linked(parent, child)
            assert await store.append(QUEUE, [again], may_exist=True) == {0: parent.job_id}
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        assert ids_of(await self.take(worker, 2)) == [child.job_id for child in children]

    async def test_one_that_stands_for_another_is_waited_for(self, store: Store) -> None:
        constraints = Constraints(unique="the one")
        first, second = parcel(constraints=constraints), parcel(constraints=constraints)
        await store.append(QUEUE, [first])
        child = await self.blocked(store, second)
        assert await store.append(QUEUE, [linked(second, child)]) == {0: first.job_id}
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        assert inputs_of((await self.take(worker))[0]) == [7]
