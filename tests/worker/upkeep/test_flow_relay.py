"""News of ended jobs reaches those that wait for them in other queues.

On Redis: there messages are needed, because one step does not change two queues.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.core.job import ids
from headrace.core.job.envelope import decode_envelope, encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.errors import StoreUnavailable
from headrace.store.contract import Settlement, Store
from headrace.store.deaths import Deaths
from headrace.store.flow_values import Cause, encode_cause
from headrace.store.redis.store import RedisStore
from headrace.store.values import Arrival, JobEnding
from headrace.worker.upkeep.flow_relay import FlowRelay

HERE = "here"


class Fragile(RedisStore):
    """A real store that cannot reach some queues."""

    away: frozenset[str] = frozenset()

    async def arrive(self, queue: str, arrivals: Sequence[Arrival]) -> list[Deaths]:
        if queue in self.away:
            raise StoreUnavailable(f"queue {queue} is away")
        return await super().arrive(queue, arrivals)


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[Fragile]:
    store = Fragile(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


class Time:
    now = 100.0


async def family(store: Store, queue: str) -> JobId:
    """A job in another queue that waits for one here; its key."""
    parent, child = ids.new_id(), ids.new_id()
    waiting = Parcel(child, encode_envelope(child, "task", b"\x90"), parents=(parent,))
    await store.append(queue, [waiting])
    awaited = Parcel(
        parent, encode_envelope(parent, "task", b"\x90"), children=(Child(queue, child),)
    )
    await store.append(HERE, [awaited])
    return child


async def run_all(store: Store) -> None:
    consumer = store.consumer("runner", {HERE: 1}, 30.0)
    deliveries = await consumer.fetch(1000, 0)
    for delivery in deliveries:
        delivery.job_id = decode_envelope(delivery.envelope).job_id
    await consumer.settle(HERE, [Settlement(delivery, DONE) for delivery in deliveries])
    await consumer.close()


async def state(store: Store, queue: str, job_id: JobId) -> State:
    (snapshot,) = await store.get(queue, [job_id])
    assert snapshot is not None
    return snapshot.state


async def test_a_job_in_another_queue_hears_that_what_it_waits_for_has_ended(
    store: Fragile,
) -> None:
    child = await family(store, "there")
    assert await state(store, "there", child) is State.BLOCKED
    await run_all(store)
    consumer = store.consumer("worker", {HERE: 1}, 30.0)
    await FlowRelay(store, consumer, [HERE]).step()
    assert await state(store, "there", child) is State.WAITING
    assert await consumer.flow_messages(HERE) == []
    await consumer.close()


async def test_a_queue_that_cannot_be_reached_holds_back_only_its_own_letters(
    store: Fragile,
) -> None:
    time = Time()
    children = {queue: await family(store, queue) for queue in ("x", "y")}
    store.away = frozenset({"x"})
    await run_all(store)
    consumer = store.consumer("worker", {HERE: 1}, 30.0)
    flow_relay = FlowRelay(store, consumer, [HERE], monotonic=lambda: time.now)
    rest = await flow_relay.step()
    assert await state(store, "y", children["y"]) is State.WAITING
    assert await state(store, "x", children["x"]) is State.BLOCKED
    store.away = frozenset()
    time.now += rest
    await flow_relay.step()
    assert await state(store, "x", children["x"]) is State.WAITING
    await consumer.close()


async def test_a_letter_that_is_delivered_twice_changes_nothing(store: Fragile) -> None:
    child = await family(store, "there")
    await run_all(store)
    consumer = store.consumer("worker", {HERE: 1}, 30.0)
    messages = await consumer.flow_messages(HERE)
    assert [message.queue for message in messages] == ["there"]
    await store.arrive("there", [message.arrival for message in messages])
    await FlowRelay(store, consumer, [HERE]).step()
    assert await state(store, "there", child) is State.WAITING
    assert (await store.count("there")).waiting == 1
    await consumer.close()


async def test_more_letters_than_one_look_takes_follow_without_a_rest(store: Fragile) -> None:
    parents, children = ([ids.new_id() for _ in range(1_200)] for _ in range(2))
    pairs = list(zip(parents, children, strict=True))
    await store.append(
        "there",
        [Parcel(c, encode_envelope(c, "task", b"\x90"), parents=(p,)) for p, c in pairs],
    )
    await store.append(
        HERE,
        [
            Parcel(p, encode_envelope(p, "task", b"\x90"), children=(Child("there", c),))
            for p, c in pairs
        ],
    )
    while (await store.count(HERE)).waiting:
        await run_all(store)
    consumer = store.consumer("worker", {HERE: 1}, 30.0)
    flow_relay = FlowRelay(store, consumer, [HERE], monotonic=lambda: 100.0)
    while not await flow_relay.step():
        pass
    assert (await store.count("there")).waiting == 1_200
    await consumer.close()


async def test_messages_of_an_earlier_life_of_a_job_change_nothing(store: Fragile) -> None:
    """Two relays may overlap: then a failure comes after the replay that took it back."""
    parent, child = ids.new_id(), ids.new_id()
    envelope = encode_envelope(child, "add", b"")
    await store.append(HERE, [Parcel(child, envelope, parents=(parent,))])

    async def arrive(state: State, replays: int) -> State:
        ending = JobEnding(state, encode_cause(Cause(HERE, parent)))
        await store.arrive(HERE, [Arrival(child, parent, ending, replays=replays)])
        (seen,) = await store.get(HERE, [child])
        assert seen is not None
        return seen.state

    assert await arrive(State.WAITING, 1) is State.BLOCKED
    assert await arrive(State.DEAD, 0) is State.BLOCKED
    assert await arrive(State.DEAD, 2) is State.DEAD
    assert await arrive(State.WAITING, 2) is State.DEAD
    assert await arrive(State.DEAD, 1) is State.DEAD
    assert await arrive(State.WAITING, 3) is State.BLOCKED
    assert await arrive(State.DEAD, 2) is State.BLOCKED


async def test_an_old_failure_that_comes_again_does_not_hide_that_a_job_was_purged(
    store: Fragile,
) -> None:
    """Else who waits for the child would wait for the job that failed before the purged one."""
    first, parent, child = ids.new_id(), ids.new_id(), ids.new_id()
    envelope = encode_envelope(child, "add", b"")
    await store.append(HERE, [Parcel(child, envelope, parents=(parent,))])

    async def arrive(cause: JobId, replays: int = 0) -> Cause | None:
        ending = JobEnding(State.DEAD, encode_cause(Cause(HERE, cause)))
        await store.arrive(HERE, [Arrival(child, parent, ending, replays=replays)])
        (seen,) = await store.get(HERE, [child], bodies=True)
        assert seen is not None
        return seen.cause

    assert await arrive(first) == Cause(HERE, first)
    assert await arrive(parent) == Cause(HERE, parent), "purged"
    assert await arrive(first) == Cause(HERE, parent), "late"
    assert await arrive(first, replays=1) == Cause(HERE, first), "of its next life"
