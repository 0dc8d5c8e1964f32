"""Requests that are answered wrongly, or arrive after their own repeat, are applied once."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
import redis

from headrace import EnqueueUnknown, Headrace, State, StoreUnavailable
from headrace.client.send.sender import Sender
from headrace.outbox.row_sender import RowSender
from headrace.store.contract import Settlement
from headrace.store.redis.keys import QueueKeys
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing.conformance.ground import QUEUE, kept, parcel
from tests.faults.changes import (
    CHANGES,
    Append,
    Change,
    Settle,
    delivered_late,
    prepared,
    spoiled,
)
from tests.faults.crew import LONG, eventually
from tests.faults.proxy import Fault, Proxy, calls

of_each_change = pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)


@of_each_change
async def test_a_request_that_arrives_after_its_repeat_changes_nothing(
    kind: type[Change], wire: Proxy, redis_client: redis.Redis, redis_url: str, namespace: str
) -> None:
    async with prepared(kind, redis_url, wire.url, namespace) as change:
        await delivered_late(change, wire, redis_client)


@pytest.mark.parametrize("fault", [Fault.SWALLOW, Fault.CUT, Fault.FALSIFY])
@of_each_change
async def test_a_request_whose_answer_is_spoiled_is_applied_once(
    kind: type[Change], fault: Fault, wire: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(kind, redis_url, wire.url, namespace) as change:
        await spoiled(change, wire, fault)


async def test_other_requests_may_come_between_a_request_and_its_repeat(
    wire: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(Append, redis_url, wire.url, namespace) as change:
        for fault in (Fault.SWALLOW, Fault.LATE):
            idempotency, item = IdempotencyKey(), parcel()
            wire.spoil(fault, calls("append"))
            with pytest.raises(StoreUnavailable):
                await change.store.append(QUEUE, [item], idempotency=idempotency)
            others = await change.ground.send(change.store, 3)
            again = await change.store.append(
                QUEUE, [item], may_exist=True, idempotency=idempotency
            )
            assert again == {}
            assert sorted(await change.run_all()) == sorted([item.job_id, *others])
        await wire.deliver_late()
        assert await change.run_all() == []


async def test_a_send_that_was_given_up_comes_before_the_next_or_never(
    wire: Proxy, redis_url: str, namespace: str
) -> None:
    async with prepared(Append, redis_url, wire.url, namespace) as change:
        sender, lost, next_one = Sender(change.store), parcel(), parcel()
        wire.spoil(Fault.LATE, calls("append"), times=100)
        with pytest.raises(EnqueueUnknown):
            await sender.send(QUEUE, [lost])
        wire.spoil(Fault.LATE, b"", times=0)
        await sender.send(QUEUE, [next_one])
        assert len(await wire.deliver_late()) > 1
        assert await change.run_all() == [next_one.job_id]


async def test_what_a_relay_repeats_is_sent_once(
    wire: Proxy, redis_url: str, namespace: str
) -> None:
    async with (
        prepared(Append, redis_url, wire.url, namespace) as change,
        Headrace(wire.url, namespace=namespace) as app,
    ):
        sender, parcels = RowSender(app), [parcel() for _ in range(3)]
        wire.spoil(Fault.SWALLOW, calls("append"))
        with pytest.raises(StoreUnavailable):
            await sender.send(QUEUE, parcels[:2])
        assert await change.run_all() == [each.job_id for each in parcels[:2]]
        # A row has come meanwhile: it is for the next send.
        assert await sender.send(QUEUE, parcels) == (2, None)
        assert await sender.send(QUEUE, parcels[2:]) == (1, None)
        assert await change.run_all() == [parcels[2].job_id]


class Ledger:
    """Runs of jobs of one key that a worker made: which, and how many at a time."""

    def __init__(self, app: Headrace) -> None:
        self.runs: list[int] = []
        self.most = self._now = 0

        @app.task(result_ttl=0)
        async def work(number: int) -> None:
            self.runs.append(number)
            self._now += 1
            self.most = max(self.most, self._now)
            await asyncio.sleep(0.002)
            self._now -= 1

        self.work = work.options(key="one")


@pytest.mark.settles_fail
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
async def test_jobs_of_a_key_run_once_in_order_and_one_at_a_time_over_a_bad_wire(
    fault: Fault, wire: Proxy, namespace: str
) -> None:
    async with Headrace(wire.url, namespace=namespace, lease=120) as app:
        ledger = Ledger(app)
        async with app.worker():
            await ledger.work.enqueue(0)
            await eventually("the server knows the scripts", lambda: ledger.runs)
            for number in range(1, 41):
                # An error by which the store refuses a send is raised, be it true or not.
                sends = number % 2 and fault is not Fault.FALSIFY
                wire.spoil(fault, calls("append_constrained" if sends else "settle"))
                await ledger.work.enqueue(number)
                await wire.deliver_late()
            await eventually("all have run", lambda: len(ledger.runs) > 40)
            await wire.deliver_late()
            await eventually("nothing is left", partial(_is_empty, app))
    assert ledger.runs == list(range(41))
    assert ledger.most == 1


async def _is_empty(app: Headrace) -> bool:
    return await app.store.count("default") == Counts()


async def test_parts_of_a_settlement_that_were_answered_are_not_asked_for_again(
    wire: Proxy, redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.redis.settlement_batch._MOST", 2)
    async with prepared(Settle, redis_url, wire.url, namespace) as change:
        await change.ground.send(change.plain, 5)
        taken = await change.ground.take(change.worker, 5)
        settlements = [Settlement(each, kept()) for each in taken]
        idempotency = IdempotencyKey()
        wire.spoil(Fault.SWALLOW, taken[-1].job_id)
        with pytest.raises(StoreUnavailable):
            await change.worker.settle(QUEUE, settlements, idempotency=idempotency)
        again = await change.worker.settle(QUEUE, settlements, repeat=True, idempotency=idempotency)
        assert again == []
        snapshots = await change.plain.get(QUEUE, [each.job_id for each in taken])
        assert [each and each.state for each in snapshots] == [State.DONE] * 5


async def test_take_overs_between_settlements_and_starts_cost_no_job(
    redis_url: str, redis_client: redis.Redis, namespace: str
) -> None:
    """Each take-over has settlements be sent again, and starts are counted in between."""
    epoch = QueueKeys(namespace, "default").epoch
    async with Headrace(redis_url, namespace=namespace) as app:

        @app.task(rate="100000/s")
        async def limited(number: int) -> int:
            await asyncio.sleep(0.002 * (number % 5))
            return number

        jobs = await app.enqueue_many(limited.call(number) for number in range(200))
        async with app.worker(concurrency=8):
            waiting = asyncio.gather(*(job.result(LONG) for job in jobs))
            while not waiting.done():
                redis_client.incr(epoch)
                await asyncio.sleep(0.003)
            assert await waiting == list(range(200))
