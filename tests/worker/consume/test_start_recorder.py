"""A run that goes on is seen to have started, once, whatever happens to the request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace import Context, Headrace, Retry
from headrace.admin import JobEvent
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.outcome import DONE
from headrace.errors import StoreUnavailable
from headrace.store.contract import RunStart, Settlement
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import IdempotencyKey
from headrace.testing import ManualClock
from headrace.testing.conformance.ground import known, parcel
from headrace.worker.consume.start_recorder import StartRecorder
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from tests.worker.processes import pool_tasks
from tests.worker.states import until
from tests.worker.topics import Order, orders_of

QUEUE = "default"


async def events(app: Headrace, queue: str = QUEUE) -> list[JobEvent]:
    return [event async for event in app.admin.events(queue)]


async def kinds(app: Headrace, queue: str = QUEUE) -> list[str]:
    return [event.kind for event in await events(app, queue)]


async def seen(app: Headrace, count: int = 1, queue: str = QUEUE) -> list[JobEvent]:
    """The starts, once there are so many."""
    while True:
        found = [event for event in await events(app, queue) if event.kind == "started"]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.01)


async def test_a_long_job_is_seen_to_have_started_while_it_runs(app: Headrace) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        await release.wait()

    async with app.worker():
        before = await app.store.time_ms()
        job = await hold.enqueue()
        await begun.wait()
        after = await app.store.time_ms()
        (started,) = await seen(app)
        assert (started.id, started.task, started.attempt) == (job.id, "hold", 1)
        assert before - 50 <= started.time.timestamp() * 1000 <= after + 50
        assert await kinds(app) == ["sent", "started"]
        release.set()
        await job.result(30)
    assert await kinds(app) == ["sent", "started", "done"]
    done = (await events(app))[-1]
    assert (done.task, done.attempt) == ("hold", 1)
    assert done.duration is not None
    assert done.duration.total_seconds() >= 1


async def test_a_short_job_beside_it_is_recorded_at_its_end(app: Headrace) -> None:
    release = asyncio.Event()

    @app.task
    async def hold() -> None:
        await release.wait()

    @app.task
    async def work() -> None: ...

    async with app.worker():
        long = await hold.enqueue()
        await seen(app)
        short = await work.enqueue()
        await short.result(30)
        release.set()
        await long.result(30)
    recorded = [(event.kind, event.id) for event in await events(app)]
    assert recorded == [
        *[("sent", long.id), ("started", long.id)],
        *[("sent", short.id), ("started", short.id), ("done", short.id)],
        ("done", long.id),
    ]


async def test_a_function_in_a_thread_is_seen(app: Headrace) -> None:
    release = threading.Event()

    @app.task
    def hold() -> None:
        release.wait(60)

    async with app.worker(threads=1):
        job = await hold.enqueue()
        await seen(app)
        release.set()
        await job.result(30)
    assert await kinds(app) == ["sent", "started", "done"]


async def test_a_function_in_a_process_is_seen(tmp_path: Path) -> None:
    app = pool_tasks.app
    async with app, app.worker(processes=1):
        (now,) = await app.store.events(QUEUE, "$")
        job = await pool_tasks.hold.enqueue(str(tmp_path))
        while len(await app.store.events(QUEUE, now.cursor)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (tmp_path / "gate").touch()
        await job.result(30)
        facts = [event.fact for event in await app.store.events(QUEUE, now.cursor)]
    assert [(fact.kind, fact.attempt) for fact in facts] == [
        ("sent", 0),
        ("started", 1),
        ("done", 1),
    ]


async def test_a_function_that_blocks_the_loop_is_seen(app: Headrace) -> None:
    release = threading.Event()

    @app.task
    async def block() -> bool:
        return release.wait(60)

    async def release_once_seen() -> None:
        await asyncio.wait_for(seen(app), 60)
        release.set()
        # The connections of this loop.
        await app.store.close()

    watching = threading.Thread(target=lambda: asyncio.run(release_once_seen()))
    async with app.worker():
        job = await block.enqueue()
        watching.start()
        assert await job.result(90)
    watching.join()
    assert await kinds(app) == ["sent", "started", "done"]


async def test_each_job_of_a_batch_is_seen(app: Headrace) -> None:
    release = asyncio.Event()

    @app.task(batch=3, max_wait=60)
    async def load(rows: list[int]) -> None:
        await release.wait()

    async with app.worker():
        jobs = await app.enqueue_many(load.call(number) for number in range(3))
        started = await seen(app, 3)
        assert {event.id for event in started} == {job.id for job in jobs}
        release.set()
        for job in jobs:
            await job.result(30)
    assert sorted(await kinds(app)) == ["done"] * 3 + ["sent"] * 3 + ["started"] * 3


@pytest.mark.parametrize("ordered", [False, True])
async def test_an_event_is_seen_in_its_group(app: Headrace, ordered: bool) -> None:
    release, ended = asyncio.Event(), asyncio.Event()
    orders = orders_of(app)

    @orders.subscribe("billing", ordered=ordered)
    async def bill(order: Order) -> None:
        await release.wait()
        ended.set()

    async with app.worker():
        await orders.publish(Order("o-1"))
        await seen(app, queue="billing@orders")
        release.set()
        await ended.wait()
    recorded = [kind for kind in await kinds(app, "billing@orders") if kind in ("started", "done")]
    assert recorded == ["started", "done"]


async def test_each_attempt_has_a_start_of_its_own(app: Headrace) -> None:
    releases = [asyncio.Event(), asyncio.Event()]

    @app.task(retry=Retry(2, backoff=[0.01], jitter=False))
    async def shaky(ctx: Context) -> None:
        await releases[ctx.attempt - 1].wait()
        if ctx.attempt == 1:
            raise ConnectionError

    async with app.worker():
        job = await shaky.enqueue()
        for attempt in (1, 2):
            await seen(app, attempt)
            releases[attempt - 1].set()
        await job.result(30)
    recorded = [(event.kind, event.attempt) for event in await events(app)]
    assert [each for each in recorded if each[0] != "ready"] == [
        ("sent", 0),
        ("started", 1),
        ("retry", 1),
        ("started", 2),
        ("done", 2),
    ]


async def test_a_job_that_is_handed_back_starts_again_elsewhere(app: Headrace) -> None:
    release = asyncio.Event()

    @app.task
    async def hold() -> None:
        await release.wait()

    async with app.worker(drain=0):
        job = await hold.enqueue()
        await seen(app)
    async with app.worker():
        await seen(app, 2)
        release.set()
        await job.result(30)
    assert await kinds(app) == ["sent", "started", "released", "started", "done"]


async def test_without_events_nothing_is_recorded(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, lease=0.6, events=False)

    @app.task
    async def work() -> None:
        await asyncio.sleep(1.3)

    async with app, app.worker():
        await (await work.enqueue()).result(30)
        assert await app.store.events(QUEUE) == []


# What happens to the request


class Wired(SqliteConsumer):
    """A consumer whose requests to record starts can be held up, and fail."""

    requests: list[Sequence[RunStart]]
    failing = ""
    """`before` it is carried out, or `after`."""
    under_way: threading.Event
    passing: threading.Event

    async def record_starts(
        self,
        queue: str,
        starts: Sequence[RunStart],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        self.requests.append(starts)
        self.under_way.set()
        while not self.passing.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if self.failing == "before":
            raise StoreUnavailable("it did not arrive")
        await super().record_starts(queue, starts, idempotency=idempotency)
        if self.failing == "after":
            raise StoreUnavailable("its answer was lost")


class Bench:
    """A recorder with runs of a real store."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        self.store = store
        self._settings = RunSettings("worker", None, 3, 1000, clock.now_ms)
        consumer = store.consumer("worker", [QUEUE], 30.0)
        consumer.__class__ = Wired
        assert isinstance(consumer, Wired)
        consumer.requests = []
        consumer.under_way, consumer.passing = threading.Event(), threading.Event()
        consumer.passing.set()
        self.consumer = consumer
        self.recorder = StartRecorder(clock.now_ms)
        self.held: set[LeasedDelivery] = set()
        self.runs: list[Run] = []

    async def begin(self, ago: float = 5.0) -> Run:
        """A run that began so many seconds ago."""
        await self.store.append(QUEUE, [parcel()])
        (delivery,) = known(await self.consumer.fetch(1, 0))
        run = Run(delivery, self._settings)
        run.envelope = decode_envelope(delivery.envelope)
        run.started = time.monotonic() - ago
        self.held.add(delivery)
        self.runs.append(run)
        return run

    async def beat(self) -> None:
        await self.recorder.step(lambda: [(self.consumer, self.held, tuple(self.runs))])

    async def settle(self, run: Run) -> None:
        """As the executor and the settler do."""
        run.note_facts(0.0)
        self.runs.remove(run)
        settlements = [Settlement(run.delivery, DONE)]
        await self.recorder.before_settling(settlements)
        assert await self.consumer.settle(QUEUE, settlements) == []
        self.held.discard(run.delivery)

    async def kinds(self) -> list[str]:
        return [event.fact.kind for event in await self.store.events(QUEUE)]


@pytest.fixture
def bench(store: SqliteStore, clock: ManualClock) -> Bench:
    return Bench(store, clock)


async def test_there_is_a_request_only_for_what_has_become_long(bench: Bench) -> None:
    await bench.begin(ago=0.2)
    await bench.beat()
    first, second = await bench.begin(), await bench.begin()
    (await bench.begin()).abandoned = True
    received = await bench.begin()
    bench.held.discard(received.delivery)
    for _ in range(3):
        await bench.beat()
    (starts,) = bench.consumer.requests
    assert [start.delivery for start in starts] == [first.delivery, second.delivery]


async def test_an_outcome_waits_for_the_answer(bench: Bench) -> None:
    run = await bench.begin()
    bench.consumer.passing.clear()
    # In a thread of its own, as the heartbeat is.
    beating = asyncio.create_task(asyncio.to_thread(asyncio.run, bench.beat()))
    await asyncio.to_thread(bench.consumer.under_way.wait, 60)
    settling = asyncio.create_task(bench.settle(run))
    await asyncio.sleep(0.02)
    waits = not settling.done()
    bench.consumer.passing.set()
    assert waits
    await settling
    await beating
    assert await bench.kinds() == ["sent", "started", "done"]


async def test_an_outcome_does_not_wait_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.consume.start_recorder._PATIENCE", 0.01)
    run = await bench.begin()
    bench.consumer.passing.clear()
    beating = asyncio.create_task(bench.beat())
    await until(lambda: bench.consumer.requests)
    await bench.settle(run)
    bench.consumer.passing.set()
    await beating
    # The late request finds that the run has ended.
    assert await bench.kinds() == ["sent", "started", "done"]


@pytest.mark.parametrize(("failing", "starts"), [("before", 1), ("after", 2)])
async def test_a_start_is_never_missing(bench: Bench, failing: str, starts: int) -> None:
    run = await bench.begin()
    bench.consumer.failing = failing
    with pytest.raises(StoreUnavailable):
        await bench.beat()
    await bench.settle(run)
    bench.consumer.failing = ""
    await bench.beat()
    assert await bench.kinds() == ["sent", *["started"] * starts, "done"]
    assert len(bench.consumer.requests) == 1


async def test_what_was_not_answered_is_sent_again_as_it_was(bench: Bench) -> None:
    first = await bench.begin()
    for failing in ("before", "before"):
        bench.consumer.failing = failing
        with pytest.raises(StoreUnavailable):
            await bench.beat()
    second = await bench.begin()
    bench.consumer.failing = ""
    await bench.beat()
    await bench.beat()
    sent = [[start.delivery for start in starts] for starts in bench.consumer.requests]
    assert sent == [[first.delivery]] * 3 + [[second.delivery]]
    await bench.settle(first)
    await bench.settle(second)
    kinds = await bench.kinds()
    assert (kinds.count("started"), kinds.count("done")) == (2, 2)


async def test_what_is_no_longer_held_is_forgotten(bench: Bench) -> None:
    run = await bench.begin()
    bench.consumer.failing = "before"
    with pytest.raises(StoreUnavailable):
        await bench.beat()
    bench.held.discard(run.delivery)
    bench.runs.remove(run)
    await bench.beat()
    assert len(bench.consumer.requests) == 1


async def test_many_runs_that_end_while_the_heart_beats_start_once_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.consume.start_recorder._LONG", 0.0)
    stopping = threading.Event()

    async def beat() -> None:
        while not stopping.is_set():
            await bench.beat()
            await asyncio.sleep(0.0002)

    thread = threading.Thread(target=lambda: asyncio.run(beat()))
    thread.start()
    count = 0
    while count < 200 or len(bench.consumer.requests) < 50:
        run = await bench.begin()
        # So that it ends before, during and after a beat.
        await asyncio.sleep(count % 8 * 0.0001)
        await bench.settle(run)
        count += 1
    stopping.set()
    await asyncio.to_thread(thread.join)
    facts = [event.fact for event in await bench.store.events(QUEUE, limit=10_000)]
    assert [fact.kind for fact in facts if fact.kind != "sent"] == ["started", "done"] * count
