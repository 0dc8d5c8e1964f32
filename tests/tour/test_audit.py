"""The audit trail: a record of every delivery, in a topic, a log, or wherever a function puts it.
On every store."""

from __future__ import annotations

import logging

import pytest

from headrace import AuditRecord, Headrace, JobFailed, Retry, State
from tests.worker.states import reach, until
from tests.worker.topics import Order, orders_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_each_attempt_of_a_job_is_recorded(app: Headrace) -> None:
    records: list[AuditRecord] = []
    app.audit(records.append)

    @app.task(retry=Retry(2, backoff=[0.01], jitter=False))
    async def charge(cents: int) -> None:
        raise ConnectionError("the bank is closed")

    async with app.worker() as worker:
        job = await charge.enqueue(995)
        with pytest.raises(JobFailed):
            await job.result(30)
    first, second = records
    assert (first.kind, first.id, first.queue, first.task) == ("job", job.id, "default", "charge")
    assert (first.attempt, first.delivery, first.outcome) == (1, 1, "retry")
    assert (first.error_type, first.error_text) == ("ConnectionError", "the bank is closed")
    assert (second.attempt, second.delivery, second.outcome) == (2, 2, "dead")
    assert (second.reason, second.redelivered) == ("retries_exhausted", True)
    assert first.worker == worker.name
    assert first.started_at is not None
    assert first.started_at <= first.ended_at
    assert first.duration_ms > 0


async def test_each_group_has_its_own_records_of_an_event(app: Headrace) -> None:
    records: list[AuditRecord] = []

    @app.audit
    async def keep(record: AuditRecord) -> None:
        records.append(record)

    orders = orders_of(app)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    @orders.subscribe("mail")
    def mail(order: Order) -> None:
        raise ValueError("no such address")

    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tenant": "eu"}
    async with app.worker():
        id = await orders.publish(Order("o-1"), headers=headers, correlation_id="c-1")
        await until(lambda: len(records) >= 2)
    found = {record.group: record for record in records}
    assert {(record.kind, record.topic, record.id) for record in records} == {
        ("event", "orders", id)
    }
    assert (found["billing"].outcome, found["billing"].queue) == ("done", "billing@orders")
    assert (found["mail"].outcome, found["mail"].task) == ("retry", "orders/mail")
    assert {record.trace_id for record in records} == {TRACE}
    assert {record.correlation_id for record in records} == {"c-1"}
    assert found["billing"].headers == headers


async def test_records_in_a_topic_are_events_that_are_not_recorded_themselves(
    app: Headrace,
) -> None:
    trail = app.topic("trail", AuditRecord)
    app.audit(trail)
    elsewhere: list[AuditRecord] = []
    app.audit(elsewhere.append)
    archived: list[AuditRecord] = []

    @trail.subscribe("archive")
    async def archive(record: AuditRecord) -> None:
        archived.append(record)

    @trail.broadcast
    async def watch(record: AuditRecord) -> None: ...

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        jobs = [await add.enqueue(n, n) for n in range(20)]
        await reach(jobs, State.DONE)
        await until(lambda: len(archived) >= 20)
    assert sorted(record.id for record in archived) == sorted(job.id for job in jobs)
    assert sorted(record.id for record in elsewhere) == sorted(job.id for job in jobs)
    assert [event.data for event in await trail.read()] == archived


async def test_a_logger_gets_a_line_with_all_fields(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("shop.audit")
    caplog.set_level(logging.INFO, logger.name)
    app.audit(logger)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        job = await add.enqueue(1, 2)
        await job.result(30)
    (line,) = [record for record in caplog.records if record.name == logger.name]
    assert line.getMessage().startswith(f"job {job.id} of add: done after ")
    assert vars(line).items() >= {"id": job.id, "outcome": "done", "attempt": 1}.items()


async def test_payloads_are_recorded_only_where_they_are_asked_for(app: Headrace) -> None:
    bare: list[AuditRecord] = []
    full: list[AuditRecord] = []
    app.audit(bare.append)
    app.audit(full.append, payloads=True, only=lambda record: record.topic == "orders")
    orders = orders_of(app)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        await (await add.enqueue(1, 2)).result(30)
        await orders.publish(Order("o-1"))
        await until(lambda: full)
    (event,) = await orders.read()
    assert [record.payload for record in bare] == [None, None]
    assert [(record.payload, record.size) for record in full] == [(event.raw, len(event.raw))]


async def test_with_keep_a_sink_that_fails_changes_nothing(app: Headrace) -> None:
    observed: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        observed.append(f"{scope}: {error}")

    @app.audit
    async def broken(record: AuditRecord) -> None:
        raise OSError("the disk is full")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        assert await (await add.enqueue(1, 2)).result(30) == 3
    assert observed == ["audit: the disk is full"]


async def test_with_fail_nothing_is_done_without_a_record(app: Headrace) -> None:
    written: list[AuditRecord] = []
    troubles = [OSError("the disk is full"), OSError("still full")]

    def write(record: AuditRecord) -> None:
        if troubles:
            raise troubles.pop(0)
        written.append(record)

    app.audit(write, on_error="fail")

    @app.task(retry=Retry(5, backoff=[0.01], jitter=False))
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        assert await (await add.enqueue(1, 2)).result(30) == 3
    assert [(record.attempt, record.outcome) for record in written] == [(3, "done")]


async def test_with_fail_a_sink_that_never_works_makes_jobs_dead(app: Headrace) -> None:
    def write(record: AuditRecord) -> None:
        raise OSError("the disk is full")

    app.audit(write, on_error="fail")

    @app.task(retry=Retry(2, backoff=[0.01], jitter=False))
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        job = await add.enqueue(1, 2)
        with pytest.raises(JobFailed, match=r"could not be recorded in function .*disk is full"):
            await job.result(30)
    info = await job.info()
    assert [attempt.error_type for attempt in info.attempts] == ["headrace.errors.AuditError"] * 2
