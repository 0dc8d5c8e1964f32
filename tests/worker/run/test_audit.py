"""What is recorded of deliveries, whatever becomes of them, and what a bad sink does to them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import pytest

from headrace import (
    AuditError,
    AuditRecord,
    BatchError,
    ConfigError,
    Context,
    Defer,
    Delivery,
    Headrace,
    Reject,
    Retry,
    State,
    Task,
    Topic,
)
from headrace.audit.audit import Audit
from headrace.audit.sinks import TopicSink
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.ids import new_id
from headrace.core.job.parcel import Parcel
from tests.worker.run.test_acks import settled
from tests.worker.states import reach, until
from tests.worker.topics import Order, group_of, orders_of

ONCE_MORE = Retry(2, backoff=[0.01], jitter=False)


@pytest.fixture
def records(app: Headrace) -> list[AuditRecord]:
    """What the app's workers record."""
    return recording(app)


def recorded(records: list[AuditRecord], id: str) -> bool:
    return any(record.id == id for record in records)


def recording(app: Headrace, **options: Any) -> list[AuditRecord]:
    found: list[AuditRecord] = []

    async def keep(record: AuditRecord) -> None:
        found.append(record)

    app.audit(keep, **options)
    return found


async def add(a: int, b: int) -> int:
    return a + b


def add_task(
    app: Headrace, retry: Retry | None = None
) -> Task[[int, int], Coroutine[Any, Any, int]]:
    return app.task(retry=retry or Retry())(add)


# Whatever reaches a worker


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda job_id: b"\xc1 no envelope", "malformed"),
        (lambda job_id: encode_envelope(job_id, "gone", b"\x90"), "unknown_task"),
        (lambda job_id: encode_envelope(job_id, "add", b"\x91\xa1x"), "bad_arguments"),
        (lambda job_id: encode_envelope(job_id, "add", b"x" * 200_000), "oversize"),
        (
            lambda job_id: encode_envelope(job_id, "add", b"\x90", Overrides(expires_ms=1)),
            "expired",
        ),
    ],
)
async def test_what_is_not_fit_to_run_is_recorded(
    store_url: str, namespace: str, make: Callable[[bytes], bytes], reason: str
) -> None:
    app = Headrace(store_url, namespace=namespace, max_payload=1000, unknown_task_after=0)
    records = recording(app)
    if reason == "expired":
        app.task(name="add")(nothing)
    else:
        add_task(app)
    async with app, app.worker():
        job_id = new_id()
        await app.store.append("default", [Parcel(job_id, make(job_id))])
        await until(lambda: records)
    (record,) = records
    assert (record.outcome, record.reason, record.started_at) == ("dead", reason, None)
    assert record.duration_ms == 0
    assert record.id == ("" if reason == "malformed" else app.job(record.id).id)


async def nothing() -> None: ...


async def test_a_job_that_kills_its_workers_is_recorded_when_it_is_given_up(
    store_url: str, namespace: str
) -> None:
    app = Headrace(store_url, namespace=namespace, lease=0.3, crash_limit=1)
    records = recording(app)
    task = app.task(nothing)
    async with app:
        job = await task.enqueue()
        gone = app.store.consumer("gone", {"default": 1}, 0.3)
        assert await gone.fetch(1, 1.0)
        async with app.worker():
            await reach([job], State.DEAD)
        await gone.close()
    (record,) = records
    assert (record.outcome, record.reason, record.delivery) == ("dead", "crash_loop", 2)
    assert record.redelivered


async def test_each_job_of_a_batch_is_recorded(app: Headrace, records: list[AuditRecord]) -> None:
    @app.task(batch=4, max_wait=5, retry=ONCE_MORE)
    async def load(numbers: list[int]) -> None:
        bad = {at: ValueError(f"{n}") for at, n in enumerate(numbers) if n == 2}
        if bad:
            raise BatchError({**bad, 0: Reject("never")})

    async with app.worker():
        jobs = await app.enqueue_many(load.call(n) for n in (1, 2, 3, 4))
        await until(lambda: len(records) >= 4)
    found = {record.id: record for record in records}
    assert [found[job.id].outcome for job in jobs] == ["dead", "retry", "done", "done"]
    assert [found[job.id].error_text for job in jobs] == ["never", "2", "", ""]
    assert all(record.started_at for record in records)


async def test_deferrals_and_cancellations_are_recorded(
    app: Headrace, records: list[AuditRecord]
) -> None:
    begun = asyncio.Event()

    @app.task
    async def later(ctx: Context) -> None:
        if ctx.fence == 1:
            raise Defer(0.01)
        begun.set()
        await asyncio.Event().wait()

    async with app.worker():
        job = await later.enqueue()
        await begun.wait()
        await job.cancel()
        await reach([job], State.CANCELLED)
    assert [record.outcome for record in records] == ["defer", "cancelled"]
    assert [record.attempt for record in records] == [1, 1]


async def test_a_job_held_at_a_gate_is_recorded(app: Headrace, records: list[AuditRecord]) -> None:
    await add_task(app).enqueue(1, 2)
    await app.admin.pause("default", task="add")
    async with app.worker():
        await until(lambda: records)
    assert (records[0].outcome, records[0].reason) == ("held", "task add")


async def test_what_a_stopping_worker_hands_back_is_recorded_before(
    app: Headrace, records: list[AuditRecord]
) -> None:
    begun = asyncio.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app.worker(concurrency=1, drain=0):
        job = await endless.enqueue()
        await begun.wait()
    assert await job.status() is State.WAITING
    assert [(record.id, record.outcome) for record in records] == [(job.id, "released")]


async def test_a_function_that_will_not_end_is_recorded_when_it_is_given_up(
    app: Headrace, records: list[AuditRecord]
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task(timeout=0.05, retry=Retry(2, base=60))
    def stuck() -> None:
        begun.set()
        go_on.wait(30)

    async with app.worker():
        job = await stuck.enqueue()
        await until(lambda: records)
        assert (await reach([job], State.SCHEDULED)) == [State.SCHEDULED]
        go_on.set()
    assert [(record.outcome, record.error_type) for record in records] == [
        ("retry", "TimeoutError")
    ]


# Events


async def test_what_is_settled_by_hand_is_recorded(
    app: Headrace, records: list[AuditRecord]
) -> None:
    orders = orders_of(app)

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        if order.id == "acked":
            await delivery.ack()
        elif order.id == "rejected":
            await delivery.reject("no")
        elif delivery.attempt == 1 and not delivery.redelivered:
            del delivery

    async with app.worker():
        for order in ("acked", "rejected", "dropped"):
            await orders.publish(Order(order), id=f"order-{order}")
            await until(partial(recorded, records, f"order-{order}"))
    assert [record.outcome for record in records[:3]] == ["done", "dead", "left"]
    assert {(record.group, record.queue) for record in records} == {("billing", "billing@orders")}


async def test_an_event_acknowledged_on_receipt_is_recorded_as_what_its_handler_made_of_it(
    app: Headrace,
) -> None:
    records = recording(app)
    orders = orders_of(app)

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        raise ValueError("no")

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: records)
    assert [(record.outcome, record.error_text) for record in records] == [("dead", "no")]


async def test_each_process_records_its_own_broadcasts(
    app: Headrace, records: list[AuditRecord]
) -> None:
    orders = orders_of(app)

    @orders.broadcast
    async def drop_cache(order: Order) -> None: ...

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: records)
    (record,) = records
    assert (record.queue, record.group, record.outcome) == ("@orders", "drop_cache", "done")


async def test_an_unreadable_event_is_recorded_with_its_group(
    app: Headrace, records: list[AuditRecord]
) -> None:
    orders = orders_of(app)
    orders.subscribe("billing")(bill_nothing)
    async with app.worker():
        await app.store.publish("@orders", [Parcel(new_id(), b"\xc1")])
        await until(lambda: records)
    (record,) = records
    assert (record.topic, record.group, record.reason) == ("orders", "billing", "malformed")


async def bill_nothing(order: Order) -> None: ...


async def test_without_a_trace_the_correlation_id_stands_in_for_it(
    app: Headrace, records: list[AuditRecord]
) -> None:
    orders = orders_of(app)
    orders.subscribe("billing")(bill_nothing)
    async with app.worker():
        await orders.publish(Order("o-1"), correlation_id="c-1")
        await orders.publish(Order("o-2"))
        await until(lambda: len(records) == 2)
    assert sorted(record.trace_id for record in records) == ["", "c-1"]


# Sinks that fail


async def test_a_sink_that_hangs_fails_when_its_time_is_up(app: Headrace) -> None:
    told: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: dict[str, Any]) -> None:
        told.append(f"{scope}, {details['sink']}: {type(error).__name__}")

    async def hang(record: AuditRecord) -> None:
        await asyncio.Event().wait()

    hang.__qualname__ = "hang"
    app.audit(hang, timeout=0.05)
    task = add_task(app)
    async with app.worker():
        assert await (await task.enqueue(1, 2)).result(30) == 3
    assert told == ["audit, function hang: TimeoutError"]


async def test_a_plain_function_that_hangs_holds_up_neither_jobs_nor_the_worker(
    app: Headrace,
) -> None:
    go_on = threading.Event()

    def hang(record: AuditRecord) -> None:
        go_on.wait(30)

    app.audit(hang, timeout=0.05)
    task = add_task(app)
    async with app.worker():
        jobs = await app.enqueue_many(task.call(n, n) for n in range(5))
        assert [await job.result(30) for job in jobs] == [0, 2, 4, 6, 8]
    go_on.set()


async def test_a_sink_that_hangs_is_waited_for_a_moment_when_the_worker_must_end(
    app: Headrace,
) -> None:
    asked = asyncio.Event()

    async def hang(record: AuditRecord) -> None:
        asked.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not app.audits:
                    raise

    app.audit(hang, timeout=600)
    task = add_task(app)
    async with app.worker(drain=0):
        job = await task.enqueue(1, 2)
        await asked.wait()
    app.audits.clear()
    assert await job.status() is State.DONE


async def test_with_fail_a_job_whose_sink_hangs_has_failed_when_the_worker_must_end(
    app: Headrace,
) -> None:
    asked = asyncio.Event()

    async def hang(record: AuditRecord) -> None:
        asked.set()
        await asyncio.Event().wait()

    app.audit(hang, timeout=600, on_error="fail")
    task = add_task(app, Retry(5, backoff=[600.0]))
    async with app.worker(drain=0):
        job = await task.enqueue(1, 2)
        await asked.wait()
    assert await job.status() is State.SCHEDULED


async def test_a_failure_of_the_handler_stays_what_it_is_if_the_sink_fails_too(
    app: Headrace,
) -> None:
    def write(record: AuditRecord) -> None:
        raise OSError("full")

    app.audit(write, on_error="fail")

    @app.task(retry=ONCE_MORE)
    async def broken() -> None:
        raise ValueError("mine")

    async with app.worker():
        job = await broken.enqueue()
        await reach([job], State.DEAD)
    assert [attempt.error_text for attempt in (await job.info()).attempts] == ["mine", "mine"]


async def test_with_fail_an_event_is_retried_and_goes_dead_in_its_group_alone(
    app: Headrace,
) -> None:
    def write(record: AuditRecord) -> None:
        if record.group == "billing":
            raise OSError("full")

    app.audit(write, on_error="fail")
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe("billing", retry=ONCE_MORE)
    async def bill(order: Order, delivery: Delivery) -> None:
        seen.append(delivery.attempt)

    orders.subscribe("mail")(bill_nothing)
    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: len(seen) == 2)
        await settled(app)
        await settled(app, "mail")
    assert seen == [1, 2]
    assert (await group_of(app, "billing")).counts.dead == 1
    assert (await group_of(app, "mail")).counts.dead == 0


async def test_with_fail_acknowledging_by_hand_raises(app: Headrace) -> None:
    told: list[BaseException] = []

    async def write(record: AuditRecord) -> None:
        if record.attempt == 1:
            raise OSError("full")

    app.audit(write, on_error="fail")
    orders = orders_of(app)

    @orders.subscribe("billing", ack="manual", retry=ONCE_MORE)
    async def bill(order: Order, delivery: Delivery) -> None:
        try:
            await delivery.ack()
        except AuditError as error:
            told.append(error)

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: told)
        await settled(app)
    assert len(told) == 1
    assert (await group_of(app, "billing")).counts.dead == 0


async def test_with_fail_an_event_that_was_acknowledged_on_receipt_is_counted_as_failed(
    app: Headrace,
) -> None:
    async def write(record: AuditRecord) -> None:
        raise OSError("full")

    app.audit(write, on_error="fail")
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    worker = app.worker()
    async with worker:
        await orders.publish(Order("o-1"))
        await until(lambda: seen)
    assert worker.outcome is not None
    assert (worker.outcome.unhandled_events, seen) == (1, ["o-1"])
    assert (await group_of(app, "billing")).counts.dead == 0


async def test_while_a_sink_is_slow_no_more_is_taken_than_there_are_slots(app: Headrace) -> None:
    asked: list[int] = []
    writing = 0

    async def write(record: AuditRecord) -> None:
        nonlocal writing
        writing += 1
        # Time enough for the worker to ask the store for more, if it would.
        await app.store.count("default")
        await app.store.count("default")
        asked.append(writing)
        writing -= 1

    app.audit(write)
    add_task(app)
    await app.store.append("default", [Parcel(new_id(), b"\xc1") for _ in range(10)])
    async with app.worker(concurrency=2):
        await until(lambda: len(asked) == 10)
    assert max(asked) <= 2


async def test_of_several_audits_the_strictest_decides(app: Headrace) -> None:
    kept = recording(app)

    async def broken(record: AuditRecord) -> None:
        if record.attempt == 1:
            raise OSError("full")

    app.audit(broken, on_error="fail")
    task = add_task(app, ONCE_MORE)
    async with app.worker():
        assert await (await task.enqueue(1, 2)).result(30) == 3
    assert [(record.attempt, record.outcome) for record in kept] == [(1, "done"), (2, "done")]


async def archive(record: AuditRecord) -> None: ...


async def test_a_topic_that_is_full_is_a_sink_that_fails(app: Headrace) -> None:
    trail = app.topic("trail", AuditRecord, max_length=1)
    trail.subscribe("archive")(archive)
    told: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        told.append(f"{scope}: {type(error).__name__}")

    app.audit(trail)
    task = add_task(app)
    async with app.worker(queues=["default"]):
        for n in range(2):
            assert await (await task.enqueue(n, n)).result(30) == 2 * n
    assert told == ["audit: TopicFull"]


async def test_a_topic_that_cannot_keep_up_is_a_sink_that_fails(
    app: Headrace, records: list[AuditRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.audit.sinks._MOST_WAITING", 2)
    trail = app.topic("trail", AuditRecord)
    task = add_task(app)
    async with app.worker():
        await (await task.enqueue(1, 2)).result(30)
    sink = TopicSink(trail)
    writings = [sink.write(records[0]) for _ in range(2)]
    with pytest.raises(AuditError, match="cannot keep up"):
        sink.write(records[0])
    await asyncio.gather(*writings)
    await sink.write(records[0])
    assert len(await trail.read()) == 3


async def test_a_payload_that_is_too_large_for_the_topic_is_left_out(app: Headrace) -> None:
    trail = app.topic("trail", AuditRecord, max_payload=2000)
    app.audit(trail, payloads=True)

    @app.task
    async def measure(text: str) -> int:
        return len(text)

    async with app.worker():
        for size in (10, 5000):
            assert await (await measure.enqueue("x" * size)).result(30) == size
    small, large = [event.data for event in await trail.read()]
    assert small.payload is not None
    assert (small.size, large.payload) == (len(small.payload), None)
    assert large.size > 5000


async def test_a_logger_that_drops_records_is_a_sink_that_fails(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("shop.silent")
    logger.setLevel(logging.WARNING)
    app.audit(logger)
    task = add_task(app)
    async with app.worker():
        await (await task.enqueue(1, 2)).result(30)
    (line,) = [record for record in caplog.records if record.name == "headrace.audit"]
    assert "logger 'shop.silent' drops records: set its level" in line.getMessage()


async def test_many_failures_are_one_line_in_the_log(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    def write(record: AuditRecord) -> None:
        raise OSError("full")

    app.audit(write)
    task = add_task(app)
    async with app.worker():
        jobs = await app.enqueue_many(task.call(n, n) for n in range(50))
        await reach(jobs, State.DONE)
    lines = [record.getMessage() for record in caplog.records if record.name == "headrace.audit"]
    assert len(lines) == 2
    assert lines[0].startswith("1 record(s) could not be written to function ")
    assert lines[1].startswith("49 more ")


async def test_a_filter_that_raises_is_a_sink_that_fails(app: Headrace) -> None:
    told: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        told.append(f"{scope}: {type(error).__name__}")

    recording(app, only=lambda record: record.headers["tenant"] == "eu")
    task = add_task(app)
    async with app.worker():
        await (await task.enqueue(1, 2)).result(30)
    assert told == ["audit: KeyError"]


# Declaring


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    assert Headrace("memory://").audits == []


@pytest.mark.parametrize(
    ("sink", "options", "problem"),
    [
        (5, {}, "a topic, a logger or a function, not 5"),
        (print, {"on_error": "ignore"}, "must be 'keep' or 'fail', not 'ignore'"),
        (print, {"timeout": 0}, "at least 0.001 seconds"),
        (print, {"only": ["add"]}, "a plain function of the record"),
        (print, {"only": bill_nothing}, "a plain function of the record"),
        (logging.getLogger("x"), {"timeout": 5}, "is not for a logger"),
    ],
)
def test_what_cannot_be_is_refused(sink: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Headrace("memory://").audit(sink, **options)


def test_a_topic_of_something_else_or_somewhere_else_is_refused() -> None:
    app = Headrace("memory://")
    orders: Topic[Any] = orders_of(app)
    with pytest.raises(ConfigError, match=r"'orders' is of others: declare one with app\.topic"):
        app.audit(orders)
    elsewhere = Headrace("memory://").topic("trail", AuditRecord)
    with pytest.raises(ConfigError, match="'trail' is another app's"):
        app.audit(elsewhere)


def test_a_sink_has_five_seconds_unless_it_is_said_otherwise() -> None:
    assert [Audit(print).patience, Audit(print, timeout=1).patience] == [5.0, 1.0]


@pytest.mark.parametrize("codec", ["msgpack", "json"])
async def test_a_record_is_the_same_after_its_journey(app: Headrace, codec: Any) -> None:
    trail = app.topic("trail", AuditRecord, codec=codec)
    records = recording(app, payloads=True)
    app.audit(trail, payloads=True)
    task = add_task(app).options(headers={"tenant": "eu"})
    async with app.worker():
        await (await task.enqueue(1, 2)).result(30)
    (event,) = await trail.read()
    assert msgspec.structs.asdict(event.data) == msgspec.structs.asdict(records[0])


# Workers that die


DIES = """
import asyncio, os, sys
from headrace import AuditRecord, Headrace

app = Headrace(sys.argv[1], namespace=sys.argv[2], lease=0.6)

@app.audit
async def write(record: AuditRecord) -> None:
    print(record.id, record.delivery, record.outcome, flush=True)
    os._exit(1)

@app.task
async def add(a: int, b: int) -> int:
    return a + b

asyncio.run(app.worker().run())
"""


@pytest.mark.parametrize("store_url", ["sqlite", "redis"], indirect=True)
async def test_what_a_worker_recorded_before_it_died_is_recorded_again_as_another_delivery(
    app: Headrace, records: list[AuditRecord]
) -> None:
    job = await add_task(app).enqueue(1, 2)
    dying = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, app.url, app.namespace, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await dying.communicate()
    assert said.decode() == f"{job.id} 1 done\n"
    async with app.worker():
        assert await job.result(30) == 3
    assert [(record.id, record.delivery, record.outcome) for record in records] == [
        (job.id, 2, "done")
    ]
