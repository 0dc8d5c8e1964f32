"""Since when jobs wait in an SQLite store, and what it costs to ask for all queues at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.ids import to_id
from headrace.core.job.outcome import DONE, RELEASED, Dead, Held, Retried, task_gate
from headrace.core.job.parcel import Parcel
from headrace.store.contract import Settlement
from headrace.store.sqlite.inspection import listing, survey
from headrace.store.sqlite.store import SqliteStore
from headrace.store.topics import Group, Position
from headrace.store.values import Counts, QueueState, RunnerState
from headrace.testing import ManualClock

if TYPE_CHECKING:
    import sqlite3

    from headrace.core.job.delivery import LeasedDelivery
    from headrace.core.job.outcome import Outcome
    from headrace.store.sqlite.consumer import SqliteConsumer

LOG, BILLING = "@orders", "billing@orders"
LANE = Constraints(lane="a")
LEASE = 30.0


@pytest.fixture
def consumer(store: SqliteStore) -> SqliteConsumer:
    return store.consumer("w1", ["q"], LEASE)


def parcel(name: str, constraints: Constraints = NO_CONSTRAINTS) -> Parcel:
    job_id = to_id(name)
    return Parcel(job_id, encode_envelope(job_id, "task", b"\x90"), constraints=constraints)


async def sent(
    store: SqliteStore, clock: ManualClock, name: str, constraints: Constraints = NO_CONSTRAINTS
) -> int:
    """When the job was sent; a second has gone by since."""
    await store.append("q", [parcel(name, constraints)])
    clock.advance(1)
    return clock.now_ms() - 1000


async def oldest(store: SqliteStore, queue: str = "q") -> int | None:
    [state] = await store.survey([queue])
    return state.oldest_ms


async def settle(consumer: SqliteConsumer, outcome: Outcome, *deliveries: LeasedDelivery) -> None:
    assert await consumer.settle("q", [Settlement(each, outcome) for each in deliveries]) == []


class TestSince:
    async def test_a_released_job_has_waited_all_the_time(
        self, store: SqliteStore, clock: ManualClock, consumer: SqliteConsumer
    ) -> None:
        began = await sent(store, clock, "a")
        await settle(consumer, RELEASED, *await consumer.fetch(1, 0))
        assert await oldest(store) == began
        await consumer.fetch(1, 0)
        await consumer.close()
        assert await oldest(store) == began

    async def test_it_is_known_of_what_is_recovered_or_taken_over(
        self, store: SqliteStore, clock: ManualClock, consumer: SqliteConsumer
    ) -> None:
        began = await sent(store, clock, "a")
        [first] = await consumer.fetch(1, 0)
        [recovered] = await consumer.recover([])
        other = store.consumer("w2", ["q"], LEASE)
        for _ in range(8):
            clock.advance(LEASE / 6)
            if found := await other.reclaim("q", 1, last_chance=True):
                break
        times = [consumer.ready_ms(each) for each in (first, recovered, *found)]
        assert times == [began] * 3

    async def test_a_job_that_comes_back_in_line_waits_since_then(
        self, store: SqliteStore, clock: ManualClock, consumer: SqliteConsumer
    ) -> None:
        await sent(store, clock, "a")
        await settle(consumer, Retried(0, b"\x90"), *await consumer.fetch(1, 0))
        assert await oldest(store) == clock.now_ms()
        clock.advance(1)
        await settle(consumer, Dead("rejected", b"\x90"), *await consumer.fetch(1, 0))
        assert await oldest(store) is None
        await store.replay("q", [to_id("a")])
        assert await oldest(store) == clock.now_ms()

    async def test_a_job_that_was_blocked_waits_since_it_is_not(
        self, store: SqliteStore, clock: ManualClock, consumer: SqliteConsumer
    ) -> None:
        began = await sent(store, clock, "a", LANE)
        await sent(store, clock, "b", LANE)
        assert await oldest(store) == began
        await settle(consumer, DONE, *await consumer.fetch(1, 0))
        assert await oldest(store) == clock.now_ms()
        await store.pause("q", "task")
        await settle(consumer, Held(task_gate("task"), b""), *await consumer.fetch(1, 0))
        assert await oldest(store) is None
        clock.advance(1)
        await store.resume("q", "task")
        assert await oldest(store) == clock.now_ms()

    @pytest.mark.parametrize("ordered", [False, True])
    async def test_an_event_waits_since_it_was_published(
        self, store: SqliteStore, clock: ManualClock, ordered: bool
    ) -> None:
        await store.join(BILLING, Group(ordered=ordered), Position("new"))
        began = clock.now_ms()
        for name in "ab":
            await store.publish(LOG, [parcel(name, LANE)])
            clock.advance(1)
        assert await oldest(store, BILLING) == began
        member = store.consumer("w1", [BILLING], LEASE)
        [first] = await member.fetch(1, 0)
        assert member.ready_ms(first) == began
        assert await oldest(store, BILLING) == began + 1000
        await member.settle(BILLING, [Settlement(first, DONE)])
        [second] = await member.fetch(1, 0)
        assert member.ready_ms(second) == began + 1000

    async def test_what_an_earlier_headrace_sends_meanwhile_waits_since_nobody_knows_when(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        def unsay(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE jobs SET time_ms = 0 WHERE state = 'waiting'")

        await sent(store, clock, "a")
        await store._database.read(unsay)
        waiting = QueueState(Counts(waiting=1), runners={"loop": RunnerState(waiting=1)})
        assert await store.survey(["q"]) == [waiting]
        began = await sent(store, clock, "b")
        assert await oldest(store) == began


class TestCost:
    async def test_a_survey_takes_the_same_few_statements_for_any_number_of_queues(
        self, store: SqliteStore
    ) -> None:
        queues = [f"queue{number}" for number in range(100)]
        for queue in queues:
            await store.append(queue, [parcel("a")])
        await store.join(BILLING, Group(), Position("new"))

        def statements(connection: sqlite3.Connection) -> list[str]:
            seen: list[str] = []
            connection.set_trace_callback(seen.append)
            survey.survey(connection, namespace="test", queues=[*queues, BILLING])
            connection.set_trace_callback(None)
            return seen

        many = await store._database.read(statements)
        del queues[1:]
        few = await store._database.read(statements)
        assert len(many) == len(few) == 3

    async def test_a_survey_reads_indexes_and_no_rows(self, store: SqliteStore) -> None:
        def cursors(connection: sqlite3.Connection) -> tuple[set[int], set[int]]:
            """Those that are open on the table of jobs, and those that something is read with."""
            query = "SELECT rootpage FROM sqlite_master WHERE name = 'jobs'"
            [(root,)] = connection.execute(query).fetchall()
            steps = connection.execute(f"EXPLAIN {survey.SURVEY}", ("test", "[]")).fetchall()
            on_table = {step[2] for step in steps if step[1] == "OpenRead" and step[3] == root}
            reading = {step[2] for step in steps if step[1] in ("Column", "Rewind", "SeekRowid")}
            return on_table, reading

        on_table, reading = await store._database.read(cursors)
        assert reading
        assert not on_table & reading

    async def test_a_job_is_located_by_indexes(self, store: SqliteStore) -> None:
        def plan(connection: sqlite3.Connection) -> list[str]:
            asked = {"namespace": "test", "names": "[]", "job_id": to_id("a"), "now_ms": 0}
            found = connection.execute(f"EXPLAIN QUERY PLAN {listing.LOCATE}", asked)
            return [row[3] for row in found]

        steps = await store._database.read(plan)
        assert {
            step for step in steps if step.startswith("SCAN") and "json_each" not in step
        } == set()
