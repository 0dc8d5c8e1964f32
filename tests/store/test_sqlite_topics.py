"""What is particular to topics in SQLite: files, processes, and what a fetch takes from a log."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from headrace.core.bounds import DEAD_KEPT_DAYS
from headrace.core.clock import SystemClock
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.ids import to_id
from headrace.core.job.outcome import DONE, RELEASED, Dead
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason, State
from headrace.errors import ConfigError, GroupNotFound
from headrace.store.contract import Settlement
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.tables import UPGRADES
from headrace.store.sqlite.store import SqliteStore
from headrace.store.sqlite.topics import draw
from headrace.store.topics import Bound, Group, Position, Published
from headrace.store.values import Counts, Report
from headrace.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from headrace.core.clock import Clock
    from headrace.core.job.delivery import LeasedDelivery
    from headrace.core.job.ids import JobId
    from headrace.core.job.outcome import Outcome
    from headrace.store.sqlite.consumer import SqliteConsumer

LOG, BILLING, AUDIT = "@orders", "billing@orders", "audit@orders"
NEW, START = Position("new"), Position("start")
PLAIN, ORDERED = Group(), Group(ordered=True)
BLOCK, FAIL_KEY = Group(ordered=True, on_failure="block"), Group(True, "fail_key")
DEAD = Dead("rejected", b"\x90")
LEASE = 30.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(downtime=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "topics.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = await opened(path, clock)
    yield store
    await store.close()


async def opened(path: Path, clock: Clock) -> SqliteStore:
    store = SqliteStore(f"sqlite:///{path}", namespace="test", crash_limit=3, clock=clock)
    await store.open()
    return store


def event(name: str, lane: str = "") -> Parcel:
    job_id = to_id(name)
    return Parcel(
        job_id,
        encode_envelope(job_id, LOG, b"\x90"),
        constraints=Constraints(lane=lane) if lane else NO_CONSTRAINTS,
    )


def events(count: int, lane: str = "") -> list[Parcel]:
    return [event(f"e{number}", lane) for number in range(count)]


def keys(parcels: Sequence[Parcel]) -> list[JobId]:
    return [parcel.job_id for parcel in parcels]


def envelopes(found: Sequence[Parcel | LeasedDelivery]) -> list[bytes]:
    return [each.envelope for each in found]


def member(store: SqliteStore, queue: str = BILLING, name: str = "w1") -> SqliteConsumer:
    return store.consumer(name, [queue], LEASE)


async def settle(
    consumer: SqliteConsumer, deliveries: Sequence[LeasedDelivery], outcome: Outcome = DONE
) -> None:
    settlements = [Settlement(delivery, outcome) for delivery in deliveries]
    assert await consumer.settle(deliveries[0].queue, settlements) == []


async def published(store: SqliteStore, parcels: Sequence[Parcel]) -> list[JobId]:
    assert await store.publish(LOG, parcels) == Published(len(parcels))
    return keys(parcels)


class TestFiles:
    async def test_a_file_without_topics_is_used_on(self, path: Path, clock: ManualClock) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in UPGRADES[0]:
                connection.execute(statement)
            connection.execute("INSERT INTO queues VALUES (7, 'test', 'mail')")
            connection.execute("UPDATE numbers SET last = 1")
            connection.execute(
                "INSERT INTO jobs (id, queue, job_id, state, position, time_ms, envelope)"
                " VALUES (1, 7, x'3d61', 'waiting', 1, 0, x'90')"
            )
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            connection.execute("PRAGMA user_version = 1")
            connection.commit()
        store = await opened(path, clock)
        assert await store.logs() == []
        await store.join(BILLING, PLAIN, NEW)
        await store.publish(LOG, events(2))
        both = store.consumer("w1", ["mail", BILLING], LEASE)
        assert sorted(d.queue for d in await both.fetch(9, 0)) == [BILLING, BILLING, "mail"]
        assert (await store.queues(), await store.logs()) == (["mail"], [LOG])
        await store.close()

    async def test_all_is_there_after_the_file_was_closed(
        self, path: Path, clock: ManualClock
    ) -> None:
        first = await opened(path, clock)
        await first.join(BILLING, BLOCK, START)
        await first.join(AUDIT, FAIL_KEY, START)
        await first.publish(LOG, [*events(2, "a"), event("b", "b"), event("c")])
        for queue in (BILLING, AUDIT):
            worker = member(first, queue)
            await settle(worker, (await worker.fetch(1, 0)), DEAD)
        await first.close()
        second = await opened(path, clock)
        stopped = [await second.stopped_keys(queue) for queue in (BILLING, AUDIT)]
        assert [(k.key, k.state) for [k] in stopped] == [("a", "blocked"), ("a", "failed")]
        assert (await second.lengths([LOG]))[LOG] == 4
        assert not await second.join(BILLING, BLOCK, START)
        taken = [*await member(second).fetch(9, 0), *await member(second, AUDIT).fetch(9, 0)]
        assert envelopes(taken) == envelopes([event("b"), event("c")]) * 2
        assert await second.count(BILLING) == Counts(running=2, blocked=1, dead=1)
        assert await second.count(AUDIT) == Counts(running=2, dead=2)
        reasons = [job.reason for job in (await second.dead(AUDIT)).jobs]
        assert sorted(reasons) == [Reason.KEY_FAILED, "rejected"]
        await second.close()

    async def test_namespaces_of_one_file_have_topics_of_their_own(
        self, path: Path, store: SqliteStore, clock: ManualClock
    ) -> None:
        other = SqliteStore(f"sqlite:///{path}", namespace="other", crash_limit=3, clock=clock)
        await other.open()
        for each in (store, other):
            await each.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(1))
        assert await other.publish(LOG, events(3)) == Published(3)
        assert [(await each.lengths([LOG]))[LOG] for each in (store, other)] == [1, 3]
        assert len(await member(store).fetch(9, 0)) == 1
        assert len(await member(other).fetch(9, 0)) == 3
        await other.close()

    async def test_a_topic_in_memory_lives_as_long_as_its_store(self, clock: ManualClock) -> None:
        store = SqliteStore("memory://", namespace="test", crash_limit=3, clock=clock)
        await store.open()
        await store.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(2))
        await store.close()
        await store.open()
        worker = member(store)
        await settle(worker, await worker.fetch(9, 0))
        assert await store.count(BILLING) == Counts()
        assert (await store.lengths([LOG]))[LOG] == 2
        await store.close()


class TestTaking:
    async def test_no_more_is_taken_from_the_log_than_is_asked_for(
        self, store: SqliteStore
    ) -> None:
        await store.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(10))
        worker = member(store)
        assert envelopes(await worker.fetch(3, 0)) == envelopes(events(3))
        [group] = (await store.groups([LOG]))[LOG]
        assert (group.behind, group.counts) == (7, Counts(waiting=7, running=3))

    async def test_what_can_be_handled_is_found_behind_what_cannot(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(draw, "_MOST_TAKEN", 20)
        await store.join(BILLING, ORDERED, START)
        await store.publish(LOG, [*events(100, "busy"), event("free", "other")])
        busy, idle = member(store), member(store, name="w2")
        assert len(await busy.fetch(1, 0)) == 1
        [found] = await asyncio.wait_for(idle.fetch(1, 60), 30)
        assert found.envelope == event("free").envelope

    async def test_a_key_that_waits_takes_up_only_so_much_room(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(draw, "_MOST_BLOCKED", 10)
        await store.join(BILLING, ORDERED, START)
        sent = events(50, "a")
        await store.publish(LOG, sent)
        worker, came = member(store), []
        while found := await worker.fetch(5, 0):
            assert (await store.groups([LOG]))[LOG][0].counts.blocked <= 10
            came += envelopes(found)
            await settle(worker, found)
        assert came == envelopes(sent)

    async def test_joining_again_and_looking_for_nothing_write_nothing(
        self, path: Path, store: SqliteStore
    ) -> None:
        await store.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(1))
        await member(store).fetch(1, 0)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert not await store.join(BILLING, PLAIN, NEW)
            assert await member(store, name="w2").fetch(1, 0) == []
            trimmed = await store.trim(LOG, retention_ms=60_000, gone_after_ms=60_000)
            assert trimmed.removed == 0

    async def test_a_group_is_seen_about_every_ten_seconds(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        await store.join(BILLING, PLAIN, START)
        joined, worker, seen = clock.now_ms(), member(store), []
        for _ in range(5):
            clock.advance(4)
            await worker.fetch(1, 0)
            seen.append((await store.groups([LOG]))[LOG][0].seen_ms - joined)
        assert seen == [0, 0, 12_000, 12_000, 12_000]

    async def test_waiting_events_are_listed_while_they_are_taken(self, store: SqliteStore) -> None:
        await store.join(BILLING, ORDERED, START)
        sent = events(10)
        await store.publish(LOG, sent)
        worker = member(store)
        await worker.fetch(2, 0)
        page = await store.browse(BILLING, State.WAITING, limit=3)
        assert page.job_ids == keys(sent[2:5])
        await worker.fetch(4, 0)
        listed = list(page.job_ids)
        while page.cursor:
            page = await store.browse(BILLING, State.WAITING, page.cursor, limit=3)
            listed += page.job_ids
        assert set(keys(sent[6:])) <= set(listed)

    async def test_an_id_that_nobody_announced_is_added_once_all_the_same(
        self, store: SqliteStore
    ) -> None:
        await store.publish(LOG, events(3))
        assert await store.publish(LOG, events(5)) == Published(5, known=(0, 1, 2))
        assert [item.job_id for item in await store.read(LOG)] == keys(events(5))

    async def test_a_dead_event_that_stops_its_key_is_not_swept(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        await store.join(BILLING, BLOCK, START)
        await store.publish(LOG, [*events(2, "a"), event("other")])
        worker = member(store)
        await settle(worker, await worker.fetch(2, 0), DEAD)
        for _ in range(3):
            clock.advance((DEAD_KEPT_DAYS + 1) * 86_400)
            await worker.reclaim(BILLING, 9, last_chance=True)
        assert [job.job_id for job in (await store.dead(BILLING)).jobs] == [to_id("e0")]
        assert await store.free_key(BILLING, "a")
        assert envelopes(await worker.fetch(9, 0)) == envelopes(events(2)[1:])

    async def test_what_a_log_has_dropped_is_not_looked_for(self, store: SqliteStore) -> None:
        await store.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(9), bound=Bound(4, drops_oldest=True))
        [group] = (await store.groups([LOG]))[LOG]
        assert group.behind == 4
        assert envelopes(await member(store).fetch(9, 0)) == envelopes(events(9)[5:])

    async def test_a_group_gone_for_a_week_keeps_no_room_from_new_events(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        await store.join(BILLING, PLAIN, START)
        many = [event(f"many-{number}") for number in range(7)]
        assert await store.publish(LOG, many[:5], bound=Bound(3)) == Published(3)
        clock.advance(8 * 86_400)
        assert await store.publish(LOG, many[3:], bound=Bound(3)) == Published(4)
        assert [item.job_id for item in await store.read(LOG)] == keys(many[4:])

    @pytest.mark.parametrize("group", [BLOCK, FAIL_KEY], ids=["block", "fail_key"])
    async def test_a_key_that_is_stopped_after_its_group_went_back_goes_on_in_order(
        self, store: SqliteStore, group: Group
    ) -> None:
        await store.join(BILLING, group, START)
        await store.publish(LOG, events(4, "a"))
        worker = member(store)
        await settle(worker, await worker.fetch(9, 0))
        held = await worker.fetch(9, 0)
        await store.rewind(BILLING, START)
        await settle(worker, held, DEAD)
        ran: list[bytes] = []
        while taken := await worker.fetch(9, 0):
            assert len(taken) == 1
            ran += envelopes(taken)
            await settle(worker, taken)
        # By the time that the event comes again which failed the key, those before it have failed.
        passed = 1 if group is FAIL_KEY else 0
        assert ran == envelopes(events(4)[passed:])
        assert await store.stopped_keys(BILLING) == []
        assert await store.count(BILLING) == Counts(dead=passed)

    async def test_what_is_forgotten_when_a_group_goes_back_leaves_no_marks(
        self, path: Path, store: SqliteStore
    ) -> None:
        await store.join(BILLING, ORDERED, START)
        [first, _] = await published(store, events(2, "a"))
        worker = member(store)
        [held] = await worker.fetch(9, 0)
        await store.once_set(BILLING, first, "charge", b"1")
        await store.report(BILLING, [Report(first, b"1")])
        await settle(worker, [held], RELEASED)
        await store.rewind(BILLING, NEW)
        assert await store.once_all(BILLING, first) == {}
        assert await store.count(BILLING) == Counts()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM progress").fetchone() == (0,)

    async def test_a_lowered_bound_is_reached_in_steps(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headrace.store.sqlite.topics.publication._DROPPED_TOGETHER", 4)
        await store.join(BILLING, PLAIN, START)
        await store.publish(LOG, events(20))
        few = Bound(3, drops_oldest=True)
        lengths = []
        for number in range(6):
            published = await store.publish(LOG, [event(f"late-{number}")], bound=few)
            lengths.append(((await store.lengths([LOG]))[LOG], published.dropped))
        assert lengths == [(17, 4), (14, 4), (11, 4), (8, 4), (5, 4), (3, 3)]
        assert await store.publish(LOG, events(9), bound=few) == Published(9, dropped=9)
        assert (await store.lengths([LOG]))[LOG] == 3

    async def test_counts_of_a_log_are_forgotten_after_a_day(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        began = clock.now_ms() // 60_000
        await store.publish(LOG, events(1))
        assert [each.kind for each in (await store.stats([LOG], began))[LOG]] == ["sent"]
        clock.advance(2 * 86_400)
        await store.trim(LOG, retention_ms=86_400_000, gone_after_ms=1)
        assert await store.stats([LOG], began) == {LOG: []}

    async def test_only_groups_have_places_in_a_log(self, store: SqliteStore) -> None:
        with pytest.raises(ConfigError, match="'mail' is not the queue of a group"):
            await store.join("mail", PLAIN, NEW)
        with pytest.raises(GroupNotFound):
            await store.rewind(BILLING, START)


PUBLISHER = """
import asyncio, sys
from headrace.core.job.parcel import Parcel
from headrace.core.clock import SystemClock
from headrace.core.job.constraints import Constraints
from headrace.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], namespace="test", crash_limit=3, clock=SystemClock())
    await store.open()
    for number in range(int(sys.argv[2])):
        batch = [
            Parcel(
                b"=%d.%d" % (number, i),
                b"%d.%d" % (number, i),
                constraints=Constraints(lane=str(i)),
            )
            for i in range(3)
        ]
        await store.publish("@orders", batch)
        print(number, flush=True)
    await store.close()

asyncio.run(main())
"""

# A member that stops after some events, with others in its hands.
MEMBER = """
import asyncio, sys, time
from headrace.core.clock import SystemClock
from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement
from headrace.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], namespace="test", crash_limit=3, clock=SystemClock())
    await store.open()
    consumer = store.consumer(sys.argv[2], ["billing@orders"], 0.5)
    told = 0
    def tell(delivery):
        nonlocal told
        told += 1
        print(delivery.envelope.decode(), flush=True)
        if str(told) == sys.argv[3]:
            # Hold the rest until somebody ends this process.
            time.sleep(600)
    while (await store.groups(["@orders"]))["@orders"][0].oldest_ms is not None:
        for delivery in await consumer.fetch(7, 0.05):
            settlement = Settlement(delivery, DONE)
            if not await consumer.settle("billing@orders", [settlement]):
                tell(delivery)
        for delivery in await consumer.reclaim("billing@orders", 7, last_chance=True):
            if not await consumer.settle("billing@orders", [Settlement(delivery, DONE)]):
                tell(delivery)
    await store.close()

asyncio.run(main())
"""


def start(program: str, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, f"sqlite:///{path}", *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


async def ended(process: subprocess.Popen[bytes]) -> list[str]:
    """What a process has printed, once it is over."""
    output, _ = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0
    return output.decode().split()


class TestProcesses:
    @pytest.mark.parametrize("group", [PLAIN, ORDERED], ids=["plain", "ordered"])
    async def test_members_wake_for_events_of_another_process(
        self, path: Path, store: SqliteStore, group: Group
    ) -> None:
        await store.join(BILLING, group, START)
        fetching = asyncio.create_task(member(store).fetch(1, 60))
        reading = asyncio.create_task(store.read(LOG, wait=60))
        await ended(start(PUBLISHER, path, "1"))
        [delivery] = await asyncio.wait_for(fetching, 30)
        first, *_ = await asyncio.wait_for(reading, 30)
        assert delivery.envelope == first.envelope == b"0.0"

    @pytest.mark.parametrize("round_", range(3))
    async def test_a_killed_publisher_leaves_whole_batches(self, path: Path, round_: int) -> None:
        publisher = start(PUBLISHER, path, "1000000")
        assert publisher.stdout is not None
        told = [publisher.stdout.readline() for _ in range(40 + 13 * round_)]
        publisher.send_signal(signal.SIGKILL)
        told += publisher.stdout.readlines()
        publisher.wait()
        publisher.stdout.close()
        store = await opened(path, SystemClock())
        logged = await store.read(LOG, limit=10**6)
        batches = len(logged) // 3
        assert batches in (len(told), len(told) + 1)
        assert [item.job_id for item in logged] == [
            b"=%d.%d" % (number, i) for number in range(batches) for i in range(3)
        ]
        assert (await store.lengths([LOG]))[LOG] == 3 * batches
        await store.close()

    @pytest.mark.parametrize("group", [PLAIN, ORDERED], ids=["plain", "ordered"])
    async def test_members_in_many_processes_share_events_though_some_are_killed(
        self, path: Path, group: Group
    ) -> None:
        store = await opened(path, SystemClock())
        await store.join(BILLING, group, START)
        await ended(start(PUBLISHER, path, "300"))
        # Together they leave most of the events to the others, however fast they are.
        victims = [start(MEMBER, path, f"v{i}", "100") for i in range(2)]
        handled = []
        for victim in victims:
            assert victim.stdout is not None
            handled += [victim.stdout.readline().decode().strip() for _ in range(5)]
        survivors = [start(MEMBER, path, f"s{i}", "never") for i in range(2)]
        for victim in victims:
            assert victim.stdout is not None
            victim.send_signal(signal.SIGKILL)
            handled += victim.stdout.read().decode().split()
            victim.wait()
            victim.stdout.close()
        for survivor in survivors:
            handled += await ended(survivor)
        everything = {f"{number}.{i}" for number in range(300) for i in range(3)}
        # What a victim settled and did not live to tell of is missing; nothing comes twice.
        assert len(set(handled)) == len(handled)
        assert len(everything - set(handled)) <= len(victims)
        assert await store.count(BILLING) == Counts()
        await store.close()
