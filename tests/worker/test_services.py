"""Each service is one step that can be called by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import cast

import msgspec
import pytest

from headrace import ConfigError, Headrace, State
from headrace.core.job import ids
from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import decode_envelope, encode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.core.job.tally import Tally
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import Consumer, Settlement, Store, reclaim_every
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing import ManualClock
from headrace.worker.consume.heartbeat import Heartbeat, Leases, StoreClock
from headrace.worker.consume.places import Places
from headrace.worker.consume.reader import QueueReader
from headrace.worker.consume.reclaimer import LastChance, Reclaimer
from headrace.worker.consume.settler import Settler
from headrace.worker.run.runners import Runners
from headrace.worker.run.slots import Slots
from headrace.worker.service import Service
from headrace.worker.upkeep.promoter import Promoter
from tests.worker.states import LONG, until

QUEUE, LEASE = "q", 30.0


@pytest.fixture
def consumer(store: SqliteStore) -> SqliteConsumer:
    return store.consumer("worker", [QUEUE], LEASE)


async def send(store: Store, count: int = 1, delay_ms: int | None = None) -> None:
    job_ids = [ids.new_id() for _ in range(count)]
    parcels = [
        Parcel(job_id, encode_envelope(job_id, "task", b"\x90"), delay_ms) for job_id in job_ids
    ]
    await store.append(QUEUE, parcels)


async def taken(consumer: SqliteConsumer, count: int) -> list[LeasedDelivery]:
    deliveries = await consumer.fetch(count, 0)
    for delivery in deliveries:
        delivery.job_id = decode_envelope(delivery.envelope).job_id
    return deliveries


def places(slots: Slots | int) -> Places:
    runners = Runners(threads=1, processes=1)
    return Places(Slots(slots) if isinstance(slots, int) else slots, runners)


def unexpected(lost: list[LeasedDelivery]) -> None:
    raise AssertionError(f"lost: {lost}")


class LosesAnswers:
    """A consumer whose first settlements are carried out but answered with an error."""

    def __init__(self, consumer: SqliteConsumer, error: Exception, times: int = 1) -> None:
        self._consumer = consumer
        self._errors = [error] * times
        self.repeats: list[bool] = []

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[LeasedDelivery]:
        self.repeats.append(repeat)
        lost = await self._consumer.settle(
            queue, settlements, repeat=repeat, idempotency=idempotency
        )
        if self._errors:
            raise self._errors.pop()
        return lost

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        return await self._consumer.renew(deliveries)

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        return self._consumer.ready_ms(delivery)


async def test_the_settler_writes_all_that_has_come_in_one_step(
    store: Store, consumer: SqliteConsumer
) -> None:
    await send(store, 5)
    held = set(await taken(consumer, 5))
    settler = Settler(consumer, held)
    for delivery in list(held):
        settler.put(delivery, DONE)
    await settler.step()
    assert (settler.backlog, held) == (0, set())
    assert await store.count(QUEUE) == Counts()


async def test_the_settler_keeps_what_was_not_confirmed_and_says_that_it_repeats(
    store: Store, consumer: SqliteConsumer
) -> None:
    await send(store, 2)
    held = set(await taken(consumer, 2))
    unsure = LosesAnswers(consumer, StoreUnavailable("it was lost", sent=True))
    settler = Settler(unsure, held)  # type: ignore[arg-type]
    for delivery in list(held):
        settler.put(delivery, DONE)
    with pytest.raises(StoreUnavailable):
        await settler.step()
    assert settler.backlog == 2
    await settler.step()
    assert (settler.backlog, unsure.repeats) == (0, [False, True])


@pytest.mark.settles_fail
@pytest.mark.parametrize(
    "error", [StoreError("it was false"), RuntimeError("a bug")], ids=["false", "crash"]
)
async def test_after_an_error_about_outcomes_the_settler_asks_once_more(
    store: Store, consumer: SqliteConsumer, error: Exception
) -> None:
    await send(store, 2)
    held = set(await taken(consumer, 2))
    lying = LosesAnswers(consumer, error)
    settler = Settler(lying, held)  # type: ignore[arg-type]
    for delivery in list(held):
        settler.put(delivery, DONE)
    await settler.step()
    assert (settler.backlog, settler.lost_leases, lying.repeats) == (0, 0, [False, True])
    assert await store.count(QUEUE) == Counts()


@pytest.mark.settles_fail
@pytest.mark.parametrize("jobs", [1, 16])
@pytest.mark.parametrize("counts", [False, True], ids=["", "counted"])
async def test_what_was_settled_in_spite_of_errors_is_not_lost(
    store: Store, consumer: SqliteConsumer, jobs: int, counts: bool
) -> None:
    await send(store, jobs)
    held = set(await taken(consumer, jobs))
    lying = LosesAnswers(consumer, StoreError("it was false"), times=2)
    counted: list[Tally] = []
    settler = Settler(
        lying,  # type: ignore[arg-type]
        held,
        counted=(lambda _, tally: counted.append(tally)) if counts else None,
    )
    for delivery in list(held):
        settler.put(delivery, DONE)
    while settler.backlog:
        await settler.step()
    assert (settler.lost_leases, held) == (0, set())
    assert await store.count(QUEUE) == Counts()
    assert len(counted) == counts


class Parked(msgspec.Struct):
    """An outcome that nobody has heard of."""


@pytest.mark.settles_fail
@pytest.mark.parametrize("counts", [False, True], ids=["", "counted"])
async def test_an_outcome_that_nobody_knows_is_the_end_of_its_own_job_alone(
    store: Store, consumer: SqliteConsumer, counts: bool
) -> None:
    await send(store, 3)
    held = set(await taken(consumer, 3))
    counted: list[tuple[str, Tally]] = []
    settler = Settler(
        consumer, held, counted=(lambda *each: counted.append(each)) if counts else None
    )
    unknown, *others = held
    settler.put(unknown, Parked())  # type: ignore[arg-type]
    for delivery in others:
        settler.put(delivery, DONE)
    while settler.backlog:
        await settler.step()
    assert held == set()
    assert await store.count(QUEUE) == Counts(dead=1)
    (dead,) = (await store.dead(QUEUE)).jobs
    (attempt,) = decode_history(dead.history).attempts
    assert (dead.job_id, dead.reason) == (unknown.job_id, Reason.MALFORMED)
    assert attempt.error_text == (
        "its outcome (parked) was refused by the store: the outcome Parked is not known here"
    )
    assert sum(tally.counts["done", ""] for _, tally in counted) == (2 if counts else 0)


async def test_the_reader_takes_no_more_than_there_are_slots(
    store: Store, consumer: SqliteConsumer
) -> None:
    await send(store, 10)
    held: set[LeasedDelivery] = set()
    started: list[LeasedDelivery] = []
    slots = Slots(4)
    reclaimer = Reclaimer(consumer, [QUEUE], LEASE, LastChance(held, 3))
    settler = Settler(consumer, held)
    reader = QueueReader(
        consumer, reclaimer, settler, places(slots), held, started.append, lease=LEASE
    )
    await reader.step()
    await reader.step()
    assert (len(started), slots.free, len(held)) == (4, 0, 4)
    slots.give()
    await reader.step()
    assert (len(started), slots.free) == (5, 0)


async def test_the_reader_reads_one_half_while_the_other_runs(
    store: Store, consumer: SqliteConsumer
) -> None:
    await send(store, 10)
    held: set[LeasedDelivery] = set()
    started: list[LeasedDelivery] = []
    reclaimer = Reclaimer(consumer, [QUEUE], LEASE, LastChance(held, 3))
    settler = Settler(consumer, held)
    reader = QueueReader(consumer, reclaimer, settler, places(6), held, started.append, lease=LEASE)
    await reader.step()
    assert len(started) == 3


async def test_what_is_read_while_stopping_is_handed_back(
    store: Store, consumer: SqliteConsumer
) -> None:
    await send(store, 3)
    held: set[LeasedDelivery] = set()
    started: list[LeasedDelivery] = []
    settler = Settler(consumer, held)
    reclaimer = Reclaimer(consumer, [QUEUE], LEASE, LastChance(held, 3))
    reader = QueueReader(
        consumer, reclaimer, settler, places(10), held, started.append, lease=LEASE
    )
    stray = await taken(consumer, 3)
    reader.stop()
    await reader.recover()
    await settler.step()
    assert (len(stray), started) == (3, [])
    assert await store.count(QUEUE) == Counts(waiting=3)


async def test_what_is_handed_back_unread_is_still_known(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.options(priority=5).enqueue()
    worker = app.store.consumer("worker", ["default"], LEASE)
    held: set[LeasedDelivery] = set()
    settler = Settler(worker, held)
    reclaimer = Reclaimer(worker, ["default"], LEASE, LastChance(held, 3))
    reader = QueueReader(worker, reclaimer, settler, places(10), held, lambda _: None, lease=LEASE)
    await worker.fetch(1, 1.0)
    reader.stop()
    await reader.recover()
    await settler.step()
    assert await job.status() is State.WAITING
    await worker.close()


class LateReplies:
    """A consumer whose reads are answered when their leases are over and others look for them."""

    def __init__(self, consumer: SqliteConsumer, other: SqliteConsumer, clock: ManualClock) -> None:
        self._consumer = consumer
        self._other = other
        self._clock = clock
        self.renew = consumer.renew
        self.reclaim = consumer.reclaim
        self.recover = consumer.recover
        self.taken_over: list[LeasedDelivery] = []

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        deliveries = await self._consumer.fetch(limit, wait, capacity)
        for _ in range(8):
            self.taken_over += await self._other.reclaim(QUEUE, 1, last_chance=True)
            if self.taken_over:
                break
            self._clock.advance(reclaim_every(LEASE))
        return deliveries


async def test_what_comes_later_than_its_lease_is_not_begun_if_others_have_it(
    store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
) -> None:
    await send(store, 3)
    held: set[LeasedDelivery] = set()
    started: list[LeasedDelivery] = []
    late = LateReplies(consumer, store.consumer("other", [QUEUE], LEASE), clock)
    reclaimer = Reclaimer(consumer, [QUEUE], LEASE, LastChance(held, 3))
    reader = QueueReader(
        late,  # type: ignore[arg-type]
        reclaimer,
        Settler(consumer, held),
        places(10),
        held,
        started.append,
        lease=LEASE,
        monotonic=lambda: clock.now_ms() / 1000,
    )
    await reader.step()
    (gone,) = late.taken_over
    assert len(started) == 2
    assert gone.receipt not in {delivery.receipt for delivery in started}
    # Those that it has are leased anew.
    assert await late._other.reclaim(QUEUE, 10, last_chance=True) == []


class SlowRequests:
    """A consumer whose first read fails, and is carried out by the store only later."""

    def __init__(self, consumer: SqliteConsumer) -> None:
        self._consumer = consumer
        self._failed = False
        self.renew = consumer.renew
        self.reclaim = consumer.reclaim
        self.recover = consumer.recover

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        if self._failed:
            return []
        self._failed = True
        raise StoreUnavailable("the connection broke", sent=True)


async def test_what_a_failed_read_brings_late_is_run(
    store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
) -> None:
    await send(store, 2)
    held: set[LeasedDelivery] = set()
    started: list[LeasedDelivery] = []
    reader = QueueReader(
        SlowRequests(consumer),  # type: ignore[arg-type]
        Reclaimer(consumer, [QUEUE], LEASE, LastChance(held, 3)),
        Settler(consumer, held),
        places(10),
        held,
        started.append,
        lease=LEASE,
        monotonic=lambda: clock.now_ms() / 1000,
    )
    with pytest.raises(StoreUnavailable):
        await reader.step()
    await reader.recover()
    assert started == []
    # The request reaches the store now, and nobody hears the answer.
    assert len(await consumer.fetch(2, 0)) == 2
    clock.advance(reclaim_every(LEASE))
    await reader.step()
    assert len(started) == 2


async def test_the_reclaimer_takes_over_after_the_lease(
    store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
) -> None:
    await send(store)
    await taken(store.consumer("gone", [QUEUE], LEASE), 1)
    found: list[LeasedDelivery] = []
    for _ in range(8):
        found += await Reclaimer(consumer, [QUEUE], LEASE, LastChance(set(), 3)).step(10)
        clock.advance(reclaim_every(LEASE))
    assert [delivery.count for delivery in found] == [2]


async def test_the_promoter_sleeps_until_the_next_due_time(
    store: Store, consumer: SqliteConsumer, clock: ManualClock
) -> None:
    now = 100.0
    promoter = Promoter(consumer, [QUEUE], monotonic=lambda: now)
    await send(store, delay_ms=2_000)
    assert await promoter.step() == pytest.approx(2.001)
    clock.advance(2.001)
    now += 2.001
    await promoter.step()
    assert await store.count(QUEUE) == Counts(waiting=1)


async def test_the_heartbeat_renews_only_leases_that_are_due(
    store: Store, consumer: SqliteConsumer, clock: ManualClock
) -> None:
    await send(store, 2)
    old, new = await taken(consumer, 2)
    old.leased_at, new.leased_at = float("-inf"), float("inf")
    clock.advance(LEASE / 2)
    await Heartbeat(
        store, StoreClock(store, clock), lambda: [(consumer, {old, new})], LEASE, lost=unexpected
    ).step()
    clock.advance(LEASE * 0.6)
    assert await consumer.renew([old]) == []
    other = store.consumer("other", [QUEUE], LEASE)
    await other.reclaim(QUEUE, 10, last_chance=True)
    for _ in range(8):
        clock.advance(reclaim_every(LEASE))
        await consumer.renew([old])
        taken_over = await other.reclaim(QUEUE, 10, last_chance=True)
        if taken_over:
            break
    assert [delivery.receipt for delivery in taken_over] == [new.receipt]


class Answers:
    """A source whose renewals are carried out, and answered when that is let happen."""

    def __init__(self, held: list[LeasedDelivery]) -> None:
        self.held = held
        self.asked: list[list[LeasedDelivery]] = []
        self.let = threading.Event()
        self.trouble: StoreError | None = None

    async def renew(self, due: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        self.asked.append(list(due))
        while not self.let.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if self.trouble is not None:
            raise self.trouble
        return []


def due_delivery() -> LeasedDelivery:
    delivery = LeasedDelivery(QUEUE, 1, b"", count=1)
    delivery.leased_at = float("-inf")
    return delivery


async def test_no_source_waits_for_the_renewals_of_another(store: SqliteStore) -> None:
    late, prompt = Answers([due_delivery()]), Answers([due_delivery()])
    prompt.let.set()
    heartbeat = beating(store, [late, prompt])
    try:
        for renewals in range(1, 4):
            await until(lambda: len(prompt.asked) >= renewals)  # noqa: B023
            # It has come again meanwhile.
            prompt.held = [due_delivery()]
    finally:
        late.let.set()
        await heartbeat.stop()


async def test_a_source_whose_answer_is_late_is_renewed_all_the_same(store: SqliteStore) -> None:
    first, second = due_delivery(), due_delivery()
    late = Answers([first])
    heartbeat = beating(store, [late])
    try:
        await until(lambda: late.asked == [[first]])
        late.held = [first, second]
        await until(lambda: [first, second] in late.asked)
    finally:
        late.let.set()
        await heartbeat.stop()
    assert first.leased_at > 0.0


async def test_trouble_of_one_source_is_over_when_that_one_is_renewed(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    broken, well = Answers([due_delivery()]), Answers([due_delivery()])
    broken.trouble = StoreUnavailable("away")
    broken.let.set()
    well.let.set()
    sources = [broken, well]
    heartbeat = beating(store, sources)
    try:
        await until(lambda: len(broken.asked) > 2)
        well.held = [due_delivery()]
        await until(lambda: len(well.asked) > 1)
        assert "answers again" not in caplog.text
        broken.trouble = None
        await until(lambda: "answers again" in caplog.text)
    finally:
        await heartbeat.stop()


def beating(store: SqliteStore, sources: list[Answers]) -> Heartbeat:
    def leases() -> list[Leases]:
        return [(cast(Consumer, source), source.held) for source in sources]

    heartbeat = Heartbeat(store, StoreClock(store, ManualClock()), leases, 0.3, lost=unexpected)
    heartbeat.start()
    return heartbeat


def test_a_worker_without_queues_says_whose_list_is_empty() -> None:
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match="the app has no tasks"):
        app.worker()

    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match="queues is empty"):
        app.worker(queues=[])
    with pytest.raises(ConfigError, match="queues is empty"):
        app.worker(queues={})


def test_a_worker_reads_queues_that_are_declared_without_a_task() -> None:
    app = Headrace("memory://")
    app.queue("mail")
    app.queue("mail", rate="100/m")
    app.queue("mail")
    with pytest.raises(ConfigError, match="the app has no tasks"):
        app.worker()

    @app.task
    async def work() -> None: ...

    assert app.worker().queues == ["default", "mail"]
    with pytest.raises(ConfigError, match="contains '@'"):
        app.queue("billing@orders")


class Idler(Service):
    name = "idler"

    async def step(self) -> float:
        return 3600.0


async def test_a_service_goes_on_through_a_cancellation_until_it_is_stopped() -> None:
    idler = Idler()
    running = asyncio.create_task(idler.run_to_the_end())
    await until(lambda: idler.has_stepped)
    idler.has_stepped = False
    running.cancel()
    await until(lambda: idler.has_stepped)
    idler.stop()
    await running


async def test_a_cancelled_service_that_nobody_stops_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    idler = Idler()
    idler.patience = 0.0
    running = asyncio.create_task(idler.run_to_the_end())
    await until(lambda: idler.has_stepped)
    running.cancel()
    await asyncio.wait_for(running, LONG)
    assert not idler.stopping
    assert "the idler was cancelled, and ends: nobody has stopped it" in caplog.text
