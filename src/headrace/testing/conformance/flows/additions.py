"""Jobs that a running job adds to those that others wait for."""

from __future__ import annotations

from headrace.core.flow.counts import FlowCounts
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.flow_values import Addition, Cause
from headrace.testing.conformance.flows.across_queues import FAR
from headrace.testing.conformance.flows.counts import counted
from headrace.testing.conformance.flows.joins import FlowGround, inputs_of, linked
from headrace.testing.conformance.flows.resumption import cause_of
from headrace.testing.conformance.ground import QUEUE, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


class AdditionsConformance(FlowGround):
    async def begin_flow(self, store: Store) -> tuple[JobId, JobId, JobId]:
        """A flow of two jobs: the ids of the flow, the first and the last job."""
        flow = ids.new_id()
        first = parcel()
        last = parcel(parents=[first])
        await self.send_flow(store, counted(flow, [linked(first, last), last]))
        return flow, first.job_id, last.job_id

    async def add(self, store: Store, flow: JobId, first: JobId, *, queue: str = QUEUE) -> JobId:
        """Add a job of the queue, as a client does."""
        children = await store.extend_flow(QUEUE, first, flow, queue)
        (added,) = counted(flow, [parcel(children=children)])
        additions = [Addition(child.job_id, added.job_id, first) for child in children]
        assert await store.add_parents(QUEUE, additions) == ["waits"]
        await store.append(queue, [added])
        await store.confirm_parents(QUEUE, additions)
        return added.job_id

    async def test_a_job_waits_for_what_is_added(self, store: Store) -> None:
        flow, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        assert await store.extend_flow(QUEUE, first, flow, QUEUE) == [Child(QUEUE, last)]
        added = [await self.add(store, flow, first) for _ in range(2)]
        counts = (await store.flow_part(QUEUE, flow)).counts
        assert counts == FlowCounts(running=1, waiting=2, blocked=1)
        await self.settle(worker, running, kept(b"\x01"))
        assert (await self.snapshot(store, last)).state is State.BLOCKED
        for number, delivery in enumerate(await self.take(worker, 2), 2):
            assert delivery.job_id == added[number - 2]
            await self.settle(worker, [delivery], kept(bytes([number])))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (last, [1, 2, 3])

    async def test_a_job_may_be_added_in_another_queue(self, store: Store) -> None:
        flow, first, last = await self.begin_flow(store)
        worker = self.worker(store, queues=[QUEUE, FAR])
        running = await self.take(worker)
        added = await self.add(store, flow, first, queue=FAR)
        assert FAR in (await store.flow_part(QUEUE, flow)).queues
        assert (await store.flow_part(FAR, flow, members=True)).live == (added,)
        await self.settle(worker, running, kept(b"\x01"))
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        await self.upkeep(store, worker, [QUEUE, FAR])
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (last, [1, 2])

    async def test_what_is_added_again_counts_once(self, store: Store) -> None:
        _, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        added = parcel(children=[Child(QUEUE, last)])
        addition = [Addition(last, added.job_id, first)]
        for _ in range(2):
            assert await store.add_parents(QUEUE, addition) == ["waits"]
            await store.append(QUEUE, [added], may_exist=True)
            await store.confirm_parents(QUEUE, addition)
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        assert await store.add_parents(QUEUE, addition) == ["ended"]
        await self.settle(worker, running, kept(b"\x01"))
        assert await store.add_parents(QUEUE, addition) == ["gone"]
        assert inputs_of((await self.take(worker))[0]) == [1, 2]

    async def test_what_was_never_stored_does_not_count(self, store: Store) -> None:
        """The worker died in between, and the next run did not add it."""
        _, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        lost = Addition(last, ids.new_id(), first)
        assert await store.add_parents(QUEUE, [lost]) == ["waits"]
        stored = parcel(children=[Child(QUEUE, last)])
        addition = Addition(last, stored.job_id, first)
        assert await store.add_parents(QUEUE, [addition]) == ["waits"]
        await store.append(QUEUE, [stored])
        await store.confirm_parents(QUEUE, [addition])
        await self.settle(worker, running, kept(b"\x01"))
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (last, [1, 2])

    async def test_what_was_stored_but_not_confirmed_does_not_hold_up_others(
        self, store: Store
    ) -> None:
        _, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        stored = parcel(children=[Child(QUEUE, last)])
        await store.add_parents(QUEUE, [Addition(last, stored.job_id, first)])
        await store.append(QUEUE, [stored])
        await self.settle(worker, running, kept(b"\x01"))
        assert await self.run_all(store, worker, kept()) == [stored.job_id, last]

    async def test_what_has_ended_counts_though_it_was_not_confirmed(self, store: Store) -> None:
        """The worker died after it was stored, and the next run found that it has ended."""
        _, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        stored = parcel(children=[Child(QUEUE, last)])
        addition = [Addition(last, stored.job_id, first)]
        await store.add_parents(QUEUE, addition)
        await store.append(QUEUE, [stored])
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        assert await store.add_parents(QUEUE, addition) == ["ended"]
        await self.settle(worker, running, kept(b"\x01"))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (last, [1, 2])

    async def test_an_added_job_that_fails_is_replayed_like_others(self, store: Store) -> None:
        flow, first, last = await self.begin_flow(store)
        worker = self.worker(store)
        running = await self.take(worker)
        added = await self.add(store, flow, first)
        await self.settle(worker, await self.take(worker), DEAD)
        await self.settle(worker, running, kept(b"\x01"))
        assert await cause_of(store, last) == Cause(QUEUE, added)
        part = await store.flow_part(QUEUE, flow, members=True)
        assert part.failed == (added,)
        await store.replay(QUEUE, [added])
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        assert inputs_of((await self.take(worker))[0]) == [1, 2]

    async def test_nothing_is_added_for_jobs_that_do_not_wait(self, store: Store) -> None:
        [unknown], [other] = await self.send(store), await self.send(store)
        addition = Addition(unknown, ids.new_id(), other)
        assert await store.add_parents(QUEUE, [addition]) == ["gone"]
        assert await store.extend_flow(QUEUE, other, ids.new_id(), QUEUE) == []
        lone = Parcel(ids.new_id(), b"")
        assert await store.extend_flow(QUEUE, lone.job_id, ids.new_id(), QUEUE) == []

    async def test_a_job_that_is_gone_names_no_more_queues(self, store: Store) -> None:
        """It may still run: its queue was removed, or another worker has ended it."""
        flow, first, _ = await self.begin_flow(store)
        await self.take(self.worker(store))
        await store.remove(QUEUE, force=True)
        assert await store.extend_flow(QUEUE, first, flow, FAR) == []
        assert (await store.flow_part(QUEUE, flow)).queues == ()
        assert await self.left_behind(store) == []
