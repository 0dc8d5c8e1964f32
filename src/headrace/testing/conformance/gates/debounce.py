"""Debounced jobs: each further one puts the first off."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints, decode_constraints
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.outcome import DONE, Retried
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

DEBOUNCED = Constraints(unique="search 9", debounced=True)


class DebounceConformance(Ground):
    async def test_a_debounced_job_is_put_off_and_takes_the_new_arguments(
        self, store: Store
    ) -> None:
        first = parcel(constraints=DEBOUNCED, delay_ms=200, payload=b"\x91\x01")
        second = parcel(constraints=DEBOUNCED, delay_ms=400, payload=b"\x91\x02")
        await store.append(QUEUE, [first])
        before = await store.time_ms()
        assert await store.append(QUEUE, [second]) == {0: first.job_id}
        snapshot = await self.snapshot(store, first.job_id)
        assert snapshot.due_ms is not None
        assert snapshot.due_ms >= before + 400
        assert await store.count(QUEUE) == Counts(scheduled=1)
        await self.pass_time(0.41)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        (delivery,) = await self.take(worker)
        envelope = decode_envelope(delivery.envelope)
        assert (envelope.job_id, envelope.payload) == (first.job_id, b"\x91\x02")

    async def test_a_debounced_name_is_free_once_the_job_is_due(self, store: Store) -> None:
        first, second = (
            parcel(constraints=DEBOUNCED, delay_ms=50),
            parcel(constraints=DEBOUNCED, delay_ms=50),
        )
        await store.append(QUEUE, [first])
        await self.pass_time(0.06)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        assert await store.append(QUEUE, [second]) == {}
        taken = await self.take(worker)
        # The end of the first does not free the name of the second.
        await self.settle(worker, taken, DONE)
        assert await store.append(QUEUE, [parcel(constraints=DEBOUNCED, delay_ms=50)]) == {
            0: second.job_id
        }

    async def test_a_debounced_job_has_the_constraints_of_the_last_call(self, store: Store) -> None:
        own = Constraints(unique="search 9", debounced=True, priority=3, lane="own", ttl_ms=5000)
        other = Constraints(unique="search 9", debounced=True, priority=7, lane="other")
        first, second = (
            parcel(constraints=own, delay_ms=900),
            parcel(constraints=other, delay_ms=50),
        )
        await store.append(QUEUE, [first])
        assert await store.append(QUEUE, [second]) == {0: first.job_id}
        (snapshot,) = await store.get(QUEUE, [first.job_id], bodies=True)
        assert snapshot is not None
        assert decode_constraints(snapshot.constraints) == other
        await self.pass_time(0.06)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        (delivery,) = await self.take(worker)
        assert decode_constraints(delivery.constraints) == other
        await store.append(
            QUEUE,
            [
                parcel(constraints=Constraints(lane="own")),
                parcel(constraints=Constraints(lane="other")),
            ],
        )
        assert await store.count(QUEUE) == Counts(running=1, blocked=1, waiting=1)

    @pytest.mark.parametrize("delay", [{"at_ms": 1000}, {"delay_ms": 0}, {}])
    async def test_a_debounced_job_may_be_put_forward_to_now(
        self, store: Store, delay: dict[str, int]
    ) -> None:
        first = parcel(constraints=DEBOUNCED, delay_ms=60_000, payload=b"\x91\x01")
        second = parcel(
            constraints=DEBOUNCED,
            at_ms=delay.get("at_ms"),
            delay_ms=delay.get("delay_ms"),
            payload=b"\x91\x02",
        )
        await store.append(QUEUE, [first])
        assert await store.append(QUEUE, [second]) == {0: first.job_id}
        worker = self.worker(store)
        await worker.promote(QUEUE)
        (delivery,) = await self.take(worker)
        envelope = decode_envelope(delivery.envelope)
        assert (envelope.job_id, envelope.payload) == (first.job_id, b"\x91\x02")
        assert await store.append(QUEUE, [parcel(constraints=DEBOUNCED, delay_ms=50)]) == {}

    async def test_a_replayed_debounced_job_does_not_take_its_name(self, store: Store) -> None:
        first, second, third = (parcel(constraints=DEBOUNCED, delay_ms=50) for _ in range(3))
        await store.append(QUEUE, [first])
        await self.pass_time(0.06)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.replay(QUEUE, [first.job_id]) == [True]
        assert await store.append(QUEUE, [second]) == {}
        await self.settle(worker, await self.take(worker), DONE)
        assert await store.append(QUEUE, [third]) == {0: second.job_id}

    async def test_a_retry_of_a_debounced_job_is_left_alone(self, store: Store) -> None:
        first, second = (
            parcel(constraints=DEBOUNCED, delay_ms=50),
            parcel(constraints=DEBOUNCED, delay_ms=50),
        )
        await store.append(QUEUE, [first])
        await self.pass_time(0.06)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        await self.settle(worker, await self.take(worker), Retried(60_000, HISTORY))
        assert await store.append(QUEUE, [second]) == {}
        assert await self.states(store, [first.job_id, second.job_id]) == [State.SCHEDULED] * 2

    async def test_a_cancelled_debounced_job_frees_its_name(self, store: Store) -> None:
        first, second = (
            parcel(constraints=DEBOUNCED, delay_ms=900),
            parcel(constraints=DEBOUNCED, delay_ms=900),
        )
        await store.append(QUEUE, [first])
        await store.cancel(QUEUE, [first.job_id])
        assert await store.append(QUEUE, [second]) == {}
