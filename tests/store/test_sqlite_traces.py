"""What jobs leave in the file: plain ones nothing beside their rows, the others nothing once they
have ended."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec
import pytest

from headrace.core.job.constraints import Constraints, Limit, decode_constraints
from headrace.core.job.envelope import decode_envelope, encode_envelope
from headrace.core.job.ids import to_id
from headrace.core.job.outcome import (
    DONE,
    RELEASED,
    Cancelled,
    Dead,
    Done,
    Held,
    Outcome,
    Retried,
    task_gate,
)
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.verdict import done_verdict
from headrace.store.contract import Settlement, reclaim_every
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Report
from headrace.testing import ManualClock

if TYPE_CHECKING:
    import sqlite3

    from headrace.core.job.delivery import LeasedDelivery
    from headrace.core.job.ids import JobId

LEASE = 30.0
QUEUES = ("q", "far")
TASKS = ("one", "two")
# What is there of a queue that was used, whatever its jobs were.
OF_EVERY_QUEUE = {"queues", "reclaims", "numbers", "facts", "counters"}
WIDTHS = {"narrow": 1, "wide": 3}
LIMITS = {"slow": Limit("slow", 2, 1_000), "even": Limit("even", 20, 1_000, 3)}


async def tables_in_use(store: SqliteStore) -> set[str]:
    def names(connection: sqlite3.Connection) -> set[str]:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name
            for (name,) in tables.fetchall()
            if connection.execute(f"SELECT EXISTS (SELECT 1 FROM {name})").fetchone()[0]
        }

    return await store._database.read(names)


def plain(name: str) -> Parcel:
    return Parcel(to_id(name), encode_envelope(to_id(name), "one", b"\x90"))


async def test_plain_jobs_are_rows_and_nothing_else(store: SqliteStore) -> None:
    worker = store.consumer("w", ["q"], LEASE)
    await store.append("q", [plain(name) for name in "abcd"])
    assert await tables_in_use(store) == OF_EVERY_QUEUE - {"reclaims"} | {"jobs"}
    done, dead, again, released = await worker.fetch(4, 0)
    await worker.settle(
        "q",
        [
            Settlement(done, DONE),
            Settlement(dead, Dead("x", b"")),
            Settlement(again, Retried(0, b"")),
            Settlement(released, RELEASED),
        ],
    )
    assert await tables_in_use(store) == OF_EVERY_QUEUE - {"reclaims"} | {"jobs"}


async def test_without_events_nothing_is_recorded(clock: ManualClock) -> None:
    store = SqliteStore("memory://", namespace="test", crash_limit=3, clock=clock, events=False)
    await store.open()
    worker = store.consumer("w", ["q"], LEASE)
    await store.append("q", [plain("a"), plain("b")])
    await worker.settle("q", [Settlement(each, DONE) for each in await worker.fetch(1, 0)])
    await store.cancel("q", [to_id("b")])
    assert await tables_in_use(store) == {"queues", "numbers", "results"}
    assert await store.events("q") == []
    await store.close()


@pytest.mark.parametrize("seed", range(12))
async def test_a_mix_of_everything_leaves_nothing_behind(
    seed: int, store: SqliteStore, clock: ManualClock
) -> None:
    mix = Mix(store, clock, random.Random(seed))
    for _ in range(400):
        await mix.do_something()
    await mix.finish()
    assert mix.sent == mix.ended
    assert await tables_in_use(store) - OF_EVERY_QUEUE == set()


class Mix:
    """Sends jobs of all kinds and does with them what happens to jobs, checking at each start that
    neither a lane nor a limit is exceeded."""

    def __init__(self, store: SqliteStore, clock: ManualClock, chance: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._workers = [store.consumer(f"w{n}", QUEUES, LEASE) for n in range(2)]
        self._held: list[list[LeasedDelivery]] = [[], []]
        self._paused: set[tuple[str, str]] = set()
        self._starts: dict[str, list[int]] = defaultdict(list)
        self._made = 0
        self.sent: set[JobId] = set()
        self.ended: set[JobId] = set()

    async def do_something(self) -> None:
        verbs = (self._send, self._send_flow, self._run, self._settle, self._settle, self._upkeep,
                 self._cancel, self._pause, self._tell)  # fmt: skip
        await self._chance.choice(verbs)()

    async def finish(self) -> None:
        for queue, task in self._paused:
            await self._store.resume(queue, task)
        self._paused.clear()
        for _ in range(500):
            if not any([await self._unfinished(queue) for queue in QUEUES]):
                break
            await self._run()
            await self._upkeep()
            for n in range(len(self._workers)):
                await self._settle_all(n, DONE)
        for queue in QUEUES:
            dead = (await self._store.dead(queue, limit=10_000)).jobs
            await self._store.purge(queue, [job.job_id for job in dead])
        self.ended = {key for key in self.sent if not await self._is_there(key)}
        # Until the last verdict, log and unique name has expired.
        self._clock.advance(25 * 60 * 60)
        for queue in QUEUES:
            await self._workers[0].reclaim(queue, 1, last_chance=True)

    async def _unfinished(self, queue: str) -> bool:
        counts = await self._store.count(queue)
        return bool(counts.waiting or counts.running or counts.scheduled or counts.blocked)

    async def _is_there(self, job_id: JobId) -> bool:
        pages = [await self._store.get(queue, [job_id]) for queue in QUEUES]
        return any(s is not None and not s.state.final for [s] in pages)

    def _parcel(self, *, in_flow: bool = False, parents: tuple[JobId, ...] = ()) -> Parcel:
        self._made += 1
        job_id = to_id(f"job-{self._made}")
        self.sent.add(job_id)
        envelope = encode_envelope(job_id, self._chance.choice(TASKS), b"\x90")
        delay = self._chance.choice((None, None, 300, 2_000))
        return Parcel(job_id, envelope, delay, None, self._constraints(named=not in_flow), parents)

    def _constraints(self, *, named: bool) -> Constraints:
        chance = self._chance
        lane = chance.choice(("", "", *WIDTHS))
        # Not in a flow: a job must not wait for one that stands for itself.
        named = named and chance.random() < 0.3
        return Constraints(
            priority=chance.choice((0, 0, 50)),
            lane=lane,
            width=WIDTHS.get(lane, 1),
            unique=f"name {chance.randrange(5)}" if named else "",
            unique_for_ms=chance.choice((0, 500)),
            debounced=chance.random() < 0.3,
            limits=tuple(limit for limit in LIMITS.values() if chance.random() < 0.25),
        )

    async def _send(self) -> None:
        parcels = [self._parcel() for _ in range(self._chance.randrange(1, 6))]
        await self._append(self._chance.choice(QUEUES), parcels)

    async def _send_flow(self) -> None:
        parents = [self._parcel(in_flow=True) for _ in range(self._chance.randrange(1, 4))]
        queues = [self._chance.choice(QUEUES) for _ in parents]
        child_queue = self._chance.choice(QUEUES)
        job_ids = tuple(parent.job_id for parent in parents)
        child = self._parcel(in_flow=True, parents=job_ids)
        await self._append(child_queue, [child])
        runs_anyway = self._chance.random() < 0.5
        for queue, parent in zip(queues, parents, strict=True):
            children = (Child(child_queue, child.job_id, runs_anyway),)
            await self._append(queue, [msgspec.structs.replace(parent, children=children)])

    async def _append(self, queue: str, parcels: list[Parcel]) -> None:
        refused = await self._store.append(queue, parcels)
        self.sent -= {parcels[at].job_id for at in refused}

    async def _run(self) -> None:
        n = self._chance.randrange(len(self._workers))
        taken = await self._workers[n].fetch(self._chance.randrange(1, 6), 0)
        for delivery in taken:
            envelope = decode_envelope(delivery.envelope)
            delivery.job_id, delivery.task = envelope.job_id, envelope.task
        await self._begin(n, taken)

    async def _begin(self, n: int, taken: list[LeasedDelivery]) -> None:
        for queue in QUEUES:
            here = [delivery for delivery in taken if delivery.queue == queue]
            paused = [d for d in here if (queue, d.task) in self._paused]
            limited = [
                d for d in here if d not in paused and decode_constraints(d.constraints).limits
            ]
            refused = await self._workers[n].begin(queue, limited)
            held = [Settlement(d, Held(gate, b"")) for d, gate in refused.items()]
            held += [Settlement(d, Held(task_gate(d.task), b"")) for d in paused]
            await self._workers[n].settle(queue, held)
            started = [d for d in here if d not in paused and d not in refused]
            self._held[n] += started
            self._check_limits(queue, [d for d in started if d in limited])
        self._check_lanes()

    def _check_limits(self, queue: str, started: list[LeasedDelivery]) -> None:
        now_ms = self._clock.now_ms()
        for delivery in started:
            for limit in decode_constraints(delivery.constraints).limits:
                starts = self._starts[f"{queue} {limit.name}"]
                starts.append(now_ms)
                recent = [at for at in starts if at >= now_ms - limit.window_ms]
                assert len(recent) <= limit.most

    def _check_lanes(self) -> None:
        running = Counter(
            (delivery.queue, decode_constraints(delivery.constraints).lane)
            for held in self._held
            for delivery in held
        )
        assert all(count <= WIDTHS.get(lane, 10_000) for (_, lane), count in running.items())

    def _outcome(self) -> Outcome:
        return self._chance.choice(
            (DONE, DONE, Done(done_verdict(b"\x01"), 60_000), Retried(0, b""), Retried(400, b""),
             Dead("x", b""), Cancelled(), RELEASED)
        )  # fmt: skip

    async def _settle(self) -> None:
        n = self._chance.randrange(len(self._workers))
        if self._held[n]:
            delivery = self._held[n].pop(self._chance.randrange(len(self._held[n])))
            outcome = self._outcome()
            if isinstance(outcome, Cancelled) and self._chance.random() < 0.7:
                await self._store.cancel(delivery.queue, [delivery.job_id])
            settlement = Settlement(delivery, outcome)
            assert await self._workers[n].settle(delivery.queue, [settlement]) == []

    async def _settle_all(self, n: int, outcome: Outcome) -> None:
        for delivery in self._held[n]:
            await self._workers[n].settle(delivery.queue, [Settlement(delivery, outcome)])
        self._held[n].clear()

    async def _upkeep(self) -> None:
        self._clock.advance(self._chance.choice((0.05, 0.3, 1.2)))
        for worker, held in zip(self._workers, self._held, strict=True):
            assert await worker.renew(held) == []
        for queue in QUEUES:
            await self._workers[0].promote(queue)

    async def _cancel(self) -> None:
        keys = self._chance.sample(sorted(self.sent), min(3, len(self.sent)))
        await self._store.cancel(self._chance.choice(QUEUES), keys)

    async def _pause(self) -> None:
        place = (self._chance.choice(QUEUES), self._chance.choice(("", *TASKS)))
        if place in self._paused:
            self._paused.discard(place)
            await self._store.resume(*place)
        else:
            self._paused.add(place)
            await self._store.pause(*place)

    async def _tell(self) -> None:
        for delivery in self._held[0]:
            await self._store.report(
                delivery.queue, [Report(delivery.job_id, b"\x91\x00", ("line",))]
            )
            await self._store.once_set(delivery.queue, delivery.job_id, "paid", b"\xc3")


async def test_a_dead_jobs_marks_are_forgotten_with_it(
    store: SqliteStore, clock: ManualClock
) -> None:
    worker = store.consumer("w", ["q"], LEASE)
    await store.append("q", [plain("a")])
    [delivery] = await worker.fetch(1, 0)
    await store.once_set("q", to_id("a"), "paid", b"\xc3")
    await worker.settle("q", [Settlement(delivery, Dead("x", b""))])
    assert await store.once_all("q", to_id("a")) == {"paid": b"\xc3"}
    await worker.reclaim("q", 1, last_chance=True)
    clock.advance(31 * 24 * 60 * 60)
    await worker.reclaim("q", 1, last_chance=True)
    assert (await store.count("q")).dead == 0
    assert await store.once_all("q", to_id("a")) == {}


async def test_an_expired_cancelled_job_ends_with_its_lease(
    store: SqliteStore, clock: ManualClock
) -> None:
    lost, other = store.consumer("w1", ["q"], LEASE), store.consumer("w2", ["q"], LEASE)
    await store.append("q", [plain("a")])
    await lost.fetch(1, 0)
    assert await store.cancel("q", [to_id("a")]) == [State.RUNNING]
    for _ in range(8):
        assert await other.reclaim("q", 10, last_chance=True) == []
        clock.advance(reclaim_every(LEASE) * 1.1)
    [snapshot] = await store.get("q", [to_id("a")])
    assert snapshot is not None
    assert snapshot.state is State.CANCELLED
    assert (await store.control("q")).cancelling == ()
