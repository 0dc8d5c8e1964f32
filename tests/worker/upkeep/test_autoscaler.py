"""Consumers of a subscription inside one worker: as many as its backlog calls for."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.breaker import OPEN_FOR
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.parcel import Parcel
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import Scaled
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Counts
from headrace.testing import ManualClock
from headrace.worker.upkeep.autoscaler import Autoscaler
from headrace.worker.upkeep.registry import Registry
from headrace.worker.upkeep.scaled_consumers import CRASHES, Consumers
from headrace.worker.upkeep.workload import Workload
from headrace.worker.worker_outcome import WorkerOutcome

QUEUE = "q"


class PretendedLine:
    def __init__(self) -> None:
        self.in_flight = 0
        self.failure: BaseException | None = None
        self.tally = WorkerOutcome()


class Pretended:
    """Consumer loops that only count, and end when the test says so."""

    def __init__(self) -> None:
        self.made: list[PretendedLine] = []
        self.loops: list[PretendedLine] = []
        self.removed: list[PretendedLine] = []
        self.fails = False
        self.broken = False
        self.may_end = asyncio.Event()
        self.may_end.set()

    def loop(self, number: int) -> PretendedLine:
        return self.made[number]

    async def add(self) -> PretendedLine:
        if self.broken:
            raise RuntimeError("no")
        self.made.append(PretendedLine())
        self.loops.append(self.made[-1])
        return self.made[-1]

    async def remove(self, loop: PretendedLine) -> None:
        self.removed.append(loop)
        await self.may_end.wait()
        if self.fails:
            raise RuntimeError("no")
        self.loops.remove(loop)


class Scene:
    def __init__(
        self, store: SqliteStore, least: int, most: int, each: int = 2, queue: str = QUEUE
    ) -> None:
        self.now = 1000.0
        self.store = store
        self.loops = Pretended()
        self.told: dict[str, Scaled] = {}
        scaling = Scaling(least, most, hysteresis=0, cooldown=0)
        workload = Workload("orders/billing", (queue,), each)
        self.consumers = Consumers(
            workload,
            scaling,
            loops=lambda: self.loops.loops,
            add=self.loops.add,
            remove=self.loops.remove,
            now=self.now,
        )
        self.autoscaler = Autoscaler(
            store,
            "worker",
            [self.consumers],
            self.told.__setitem__,
            monotonic=lambda: self.now,
        )

    async def send(self, count: int, delay_ms: int | None = None) -> None:
        job_ids = [ids.new_id() for _ in range(count)]
        parcels = [
            Parcel(job_id, encode_envelope(job_id, "task", b"\x90"), delay_ms) for job_id in job_ids
        ]
        await self.store.append(QUEUE, parcels)

    async def step(self, after: float = 0.0) -> int:
        """One look; how many consumers there are then."""
        self.now += after
        await self.autoscaler.step()
        if self.loops.may_end.is_set():
            await self.autoscaler.drained()
        return self.consumers.active

    async def take_all(self) -> None:
        """Some worker takes what waits, and holds it."""
        while await self.store.consumer("other", [QUEUE], 30.0).fetch(100, 0):
            pass


async def test_there_are_as_many_as_the_backlog_calls_for(store: SqliteStore) -> None:
    scene = Scene(store, 1, 4)
    assert await scene.step() == 1
    await scene.send(9)
    assert await scene.step() == 3
    await scene.send(100)
    assert await scene.step() == 4
    assert len(scene.loops.made) == 4


async def test_what_is_due_later_calls_for_nobody(store: SqliteStore) -> None:
    scene = Scene(store, 1, 4)
    await scene.send(100, delay_ms=60_000)
    assert await scene.step() == 1


async def test_what_is_paused_calls_for_nobody(store: SqliteStore) -> None:
    scene = Scene(store, 1, 4)
    await scene.send(100)
    await store.pause(QUEUE)
    assert await scene.step() == 1


async def test_the_idlest_are_removed_first_and_what_runs_keeps_its_place(
    store: SqliteStore,
) -> None:
    scene = Scene(store, 1, 4)
    await scene.send(3)
    await scene.take_all()
    await scene.step()
    scene.consumers.scaler.target = 4
    await scene.consumers.fill(scene.now)
    for number, held in enumerate([0, 2, 0, 1]):
        scene.loops.loop(number).in_flight = held
    # Three run, two fit into each: two are needed.
    assert await scene.step() == 2
    assert set(scene.loops.removed) == {scene.loops.loop(0), scene.loops.loop(2)}


async def test_one_that_drains_holds_back_nobody_and_is_awaited(store: SqliteStore) -> None:
    scene = Scene(store, 1, 4)
    await scene.send(9)
    await scene.step()
    await scene.take_all()
    scene.consumers.scaler.target = 1
    scene.loops.may_end.clear()
    assert await scene.step() == 1
    drained = asyncio.create_task(scene.autoscaler.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    scene.loops.may_end.set()
    await drained
    assert len(scene.loops.removed) == 2


async def test_a_drain_that_fails_is_counted(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(store, 1, 1)
    await scene.step()
    scene.loops.fails = True
    scene.loops.loop(0).failure = ValueError("dead")
    await scene.step()
    assert scene.autoscaler.crashes == 1
    assert "a consumer could not be drained" in caplog.text


async def test_one_that_crashes_over_and_over_is_replaced_ever_later(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(store, 1, 1)
    await scene.step()
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        scene.loops.made[-1].tally = WorkerOutcome(crashes=CRASHES)
        assert await scene.step(after=1.0) == 0
        assert await scene.step(after=pause - 0.1) == 0
        assert await scene.step(after=0.1) == 1
    assert len(scene.loops.removed) == 8
    assert scene.told["orders/billing"].replaced == 8
    assert caplog.text.count("no other is started, and one is kept going") == 1


async def test_while_one_works_others_that_break_are_tried_again_in_five_minutes(
    store: SqliteStore,
) -> None:
    scene = Scene(store, 2, 2)
    assert await scene.step() == 2
    for pause in (1, 2, 4, 8):
        scene.loops.made[-1].tally = WorkerOutcome(crashes=CRASHES)
        assert await scene.step(after=1.0) == 1
        assert await scene.step(after=pause) == 2
    scene.loops.made[-1].tally = WorkerOutcome(crashes=CRASHES)
    assert await scene.step(after=1.0) == 1
    assert await scene.step(after=OPEN_FOR - 1) == 1
    # Now there is none, and the next need not wait.
    scene.loops.loop(0).tally = WorkerOutcome(crashes=CRASHES)
    assert await scene.step() == 0
    assert await scene.step(after=1.0) == 1


async def test_one_that_died_is_replaced_and_the_dead_are_not_counted(store: SqliteStore) -> None:
    scene = Scene(store, 2, 2)
    assert await scene.step() == 2
    scene.loops.loop(0).failure = MemoryError()
    assert await scene.step(after=100.0) == 1
    assert await scene.step(after=1.0) == 2
    assert scene.loops.removed == [scene.loops.loop(0)]


async def test_one_that_others_removed_is_missed(store: SqliteStore) -> None:
    scene = Scene(store, 2, 2)
    assert await scene.step() == 2
    await scene.loops.remove(scene.loops.loop(0))
    assert scene.consumers.active == 1
    assert await scene.step() == 2


class Away(SqliteStore):
    """A store that cannot be asked how much there is."""

    away = False

    async def count(self, queue: str) -> Counts:
        if self.away:
            raise StoreUnavailable("nobody there")
        return await super().count(queue)


async def test_a_store_that_is_away_changes_nothing(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = Away("memory://", namespace="test", crash_limit=3, clock=clock)
    await store.open()
    scene = Scene(store, 1, 4)
    await scene.send(9)
    assert await scene.step() == 3
    store.away = True
    caplog.set_level("DEBUG")
    assert await scene.step(after=100.0) == 3
    assert await scene.step(after=100.0) == 3
    assert caplog.text.count("the consumers of orders/billing stay as they are") == 1
    store.away = False
    assert await scene.step() == 3
    await store.close()


async def test_an_error_over_one_subscription_holds_back_no_other(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = Scene(store, 1, 1), Scene(store, 1, 1)
    good.autoscaler.consumers = [bad.consumers, good.consumers]
    bad.loops.broken = True
    for pause in (0.0, 1.0, 2.0):
        assert await good.step(after=pause) == 1
    assert (good.autoscaler.crashes, bad.consumers.breaker.deaths) == (3, 3)
    assert caplog.text.count("could not be looked after") == 3
    await good.step(after=3.9)
    assert good.autoscaler.crashes == 3
    bad.loops.broken = False
    await good.step(after=0.1)
    assert bad.consumers.active == 1


async def test_consumers_in_other_workers_take_their_share(
    store: SqliteStore, clock: ManualClock
) -> None:
    scene = Scene(store, 1, 4, queue=QUEUE)
    other = Registry(
        store,
        "other",
        {},
        strict=False,
        concurrency=100,
        threads=8,
        processes=2,
        lease=30.0,
        held=(),
        now_ms=clock.now_ms,
    )
    other.set_consumers("orders/billing", Scaled(count=4, least=1, most=4, slots=8))
    await other.beat()
    await scene.send(9)
    assert await scene.step() == 1


async def test_decisions_are_logged_and_reported_with_their_reason(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headrace.worker")
    scene = Scene(store, 1, 4)
    await scene.step()
    await scene.send(9)
    await scene.step()
    await scene.take_all()
    assert caplog.messages == [
        "consumers of orders/billing: 1 -> 3 "
        "(backlog: 9 events of orders/billing wait; 0 run; 1 consumers x 2 = 2 slots)"
    ]
    told = scene.told["orders/billing"]
    assert (told.count, told.slots, told.ups, told.downs) == (3, 6, {"backlog": 1}, {})
    assert told.last.startswith("1 -> 3")
