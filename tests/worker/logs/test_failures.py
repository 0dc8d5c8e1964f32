"""The log says which attempts failed and which jobs are dead, and why."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Defer, Headrace, Job, Reject, Retry, chain
from headrace.client.task import Task
from headrace.core.job.ids import new_id
from headrace.core.job.parcel import Parcel
from headrace.core.topic.subscription import OnFailure
from headrace.middleware import LogRuns
from tests.worker import topics
from tests.worker.logs.records import Records

AT_ONCE = Retry(2, base=0.0)


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    return Records(caplog)


async def test_a_failed_attempt_is_a_warning_that_says_when_it_is_tried_again(
    app: Headrace, records: Records
) -> None:
    @app.task(retry=Retry(3, backoff="fixed", base=60, jitter=False))
    async def send_mail(to: str) -> None:
        raise ConnectionError(f"no route\nto {to}")

    worker = app.worker()
    async with worker:
        job = await send_mail.enqueue("ann")
        record = await records.one("WARNING", job.id)
    assert record.getMessage() == (
        f"send_mail {job.id} failed, attempt 1 of 3, next try in 1 min: "
        "ConnectionError: no route to ann"
    )
    assert record.exc_text is None
    assert (record.job, record.queue, record.task) == (job.id, "default", "send_mail")
    assert (record.attempt, record.max_attempts, record.worker) == (1, 3, worker.name)
    assert (record.error_type, record.error) == (
        "ConnectionError",
        "ConnectionError: no route to ann",
    )
    left = record.next_try - datetime.now(UTC)
    assert timedelta(seconds=0) < left <= timedelta(seconds=61)


@pytest.mark.parametrize("run_in", ["loop", "thread"])
async def test_a_dead_job_is_an_error_with_its_traceback(
    app: Headrace, records: Records, run_in: str
) -> None:
    if run_in == "loop":

        @app.task(retry=AT_ONCE)
        async def divide(by: int) -> float:
            return 1 / by

    else:

        @app.task(retry=AT_ONCE)
        def divide(by: int) -> float:
            return 1 / by

    async with app.worker():
        job = await divide.enqueue(0)
        record = await records.one("ERROR", job.id)
    (first,) = records("WARNING", job.id)
    assert "attempt 1 of 2" in first.getMessage()
    assert record.getMessage() == (
        f"divide {job.id} is dead (retries_exhausted) after attempt 2 of 2: "
        "ZeroDivisionError: division by zero"
    )
    assert "return 1 / by" in record.exc_text
    assert "/worker/run/" not in record.exc_text
    assert (record.reason, record.attempt, record.task) == ("retries_exhausted", 2, "divide")


async def test_each_job_of_a_batch_has_its_own_line(app: Headrace, records: Records) -> None:
    @app.task(batch=2, retry=Retry(1))
    async def sum_up(numbers: list[int]) -> list[Any]:
        return [ValueError(f"{number} is odd") if number % 2 else None for number in numbers]

    async with app.worker():
        odd, even = await app.enqueue_many([sum_up.call(n) for n in (1, 2)])
        record = await records.one("ERROR", odd.id)
        await even.result(10)
    assert "ValueError: 1 is odd" in record.getMessage()
    assert records("", even.id) == []


async def test_a_job_is_dead_in_the_log_whatever_the_reason(
    app: Headrace, records: Records
) -> None:
    @app.task
    async def ship(order: int) -> None:
        raise Reject("no such order")

    app.unknown_task_after = timedelta()
    rejected = await ship.enqueue(1)
    expired = await ship.options(expires=0.001).enqueue(2)
    unknown, unfit = await of_newer_program(app)
    await asyncio.sleep(0.002)
    async with app.worker():
        for job in (rejected, expired, unknown, unfit):
            await records.one("ERROR", job.id)
    reasons = {record.job: record.reason for record in records("ERROR")}
    assert reasons == {
        rejected.id: "rejected",
        expired.id: "expired",
        unknown.id: "unknown_task",
        unfit.id: "bad_arguments",
    }
    (line,) = records.texts("ERROR", unknown.id)
    assert line.startswith(f"refund {unknown.id} is dead (unknown_task): this worker's app has no")
    assert records("WARNING") == []


async def of_newer_program(app: Headrace) -> tuple[Job[None], Job[None]]:
    """Jobs that this program cannot run: of a task that it lacks, with arguments that do not
    fit."""
    newer = Headrace(app.url, namespace=app.namespace)

    @newer.task
    async def refund(order: int) -> None: ...

    @newer.task
    async def ship(order: str) -> None: ...

    # The store of the app, which may be in its memory.
    return await sent_by(app, refund, 1), await sent_by(app, ship, "a")


async def sent_by(app: Headrace, task: Task[..., Any], argument: object) -> Job[None]:
    parcel = task.call(argument).parcel()
    await app.store.append("default", [parcel])
    return Job(app, parcel.job_id, "default")


async def test_an_error_without_a_place_in_the_code_is_one_line(
    app: Headrace, records: Records
) -> None:
    go = threading.Event()

    @app.task(timeout=0.05, retry=Retry(1))
    def stick() -> None:
        go.wait(60)

    async with app.worker():
        job = await stick.enqueue()
        line = await records.one("ERROR", job.id)
        go.set()
    assert line.exc_text is None


async def test_what_cannot_be_read_is_named_by_its_entry(app: Headrace, records: Records) -> None:
    @app.task
    async def noop() -> None: ...

    job_id = new_id()
    await app.store.append("default", [Parcel(job_id, b"\xc1 no envelope")])
    async with app.worker():
        record = await records.one("ERROR", "is dead (malformed)")
    assert record.getMessage().startswith("job ")
    assert (record.reason, record.queue) == ("malformed", "default")


async def test_an_event_that_fails_in_a_group_is_logged_like_a_job(
    app: Headrace, records: Records
) -> None:
    orders = topics.orders_of(app)

    @orders.subscribe("billing", retry=AT_ONCE)
    async def bill(order: topics.Order) -> None:
        raise RuntimeError("no card")

    async with app.worker():
        id = await orders.publish(topics.Order("o-1"))
        record = await records.one("ERROR", id)
    assert len(records("WARNING", id)) == 1
    assert record.getMessage().startswith(f"orders/billing {id} is dead (retries_exhausted) after")
    assert record.queue == "billing@orders"
    assert "no card" in record.exc_text


@pytest.mark.parametrize("broadcast", [True, False])
async def test_an_event_that_is_not_retried_is_an_error_with_its_traceback(
    app: Headrace, records: Records, broadcast: bool
) -> None:
    orders = topics.orders_of(app)

    async def bill(order: topics.Order) -> None:
        raise RuntimeError("no card")

    if broadcast:
        orders.broadcast(bill)
    else:
        orders.subscribe("billing", ack="receive")(bill)
    async with app.worker():
        id = await orders.publish(topics.Order("o-1"))
        record = await records.one("ERROR", id)
    assert "RuntimeError: no card" in record.getMessage()
    assert "in bill" in record.exc_text
    assert record.lost


async def test_a_job_of_a_flow_says_that_others_fail_with_it(
    app: Headrace, records: Records
) -> None:
    @app.task(retry=Retry(1))
    async def fetch() -> int:
        raise OSError("no disk")

    @app.task
    async def store(number: int) -> None: ...

    async with app.worker():
        job = await app.enqueue(chain(fetch.call(), store.call()))
        record = await records.one("ERROR", "no disk")
    assert "and with it all that waits for it in its flow" in record.getMessage()
    assert record.flow
    assert job.id


@pytest.mark.parametrize(
    ("on_failure", "said"),
    [
        ("block", ", and later events of its key wait until it is replayed or purged, or the key "),
        ("fail_key", ", and so is each later event of its key: "),
        ("skip", " after attempt 1 of 1: "),
    ],
)
async def test_an_ordered_event_says_what_becomes_of_those_behind_it(
    app: Headrace, records: Records, on_failure: OnFailure, said: str
) -> None:
    orders = app.topic("paid", topics.Order, key=lambda order: order.id)

    @orders.subscribe("ledger", ordered=True, on_failure=on_failure, retry=Retry(1))
    async def enter(order: topics.Order) -> None:
        raise RuntimeError("no card")

    async with app.worker():
        id = await orders.publish(topics.Order("o-1"))
        record = await records.one("ERROR", id)
    assert said in record.getMessage()


async def test_what_is_no_failure_is_not_logged(app: Headrace, records: Records) -> None:
    seen: list[int] = []

    @app.task
    async def wait(number: int) -> int:
        seen.append(number)
        if len(seen) == 1:
            raise Defer(0.0)
        return number

    async with app.worker():
        job = await wait.enqueue(7)
        assert await job.result(30) == 7
    assert records("WARNING") == records("ERROR") == []


async def test_a_flood_of_one_failure_is_summed_up(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(1))
    async def flood(number: int) -> None:
        raise KeyError("same")

    @app.task(retry=Retry(1))
    async def other() -> None:
        raise OSError("another")

    async with app.worker():
        await app.enqueue_many([flood.call(n) for n in range(300)])
        job = await other.enqueue()
        await records.one("ERROR", job.id)
        while (await app.store.count("default")).dead < 301:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    lines = records("ERROR", "flood")
    assert sum(getattr(line, "count", 1) for line in lines) == 300
    # Twenty in full, and one more, in each second that it took.
    full = [line for line in lines if not hasattr(line, "count") and line.exc_text]
    assert len(full) < 150
    summed = [line for line in lines if hasattr(line, "count")]
    assert summed
    for line in summed:
        text = line.getMessage()
        assert text.startswith(f"flood: {line.count} more are dead (retries_exhausted) in ")
        assert f", the latest is {line.job}: KeyError: " in text


async def test_a_few_failures_together_are_no_flood(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(1))
    async def fail(number: int) -> None:
        raise KeyError("same")

    async with app.worker():
        jobs = await app.enqueue_many([fail.call(number) for number in range(20)])
        for job in jobs:
            line = await records.one("ERROR", job.id)
            assert line.exc_text
    assert len(records("ERROR")) == 20


async def test_a_flood_of_events_that_are_not_retried_is_summed_up(
    app: Headrace, records: Records
) -> None:
    orders = topics.orders_of(app)

    @orders.subscribe("billing", ack="receive")
    async def bill(order: topics.Order) -> None:
        raise RuntimeError("no card")

    worker = app.worker()
    async with worker:
        await orders.publish_many([topics.Order(f"o-{number}") for number in range(200)])
        while worker.runtime is None or worker.runtime.failures.attempts < 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    lines = records("ERROR", "acknowledged on receipt")
    assert sum(getattr(line, "count", 1) for line in lines) == 200
    assert len(lines) < 100


async def test_the_attempts_of_a_replayed_job_are_said_to_count_from_there(
    app: Headrace, records: Records
) -> None:
    broken = True

    @app.task(retry=AT_ONCE)
    async def work() -> None:
        if broken:
            raise ValueError

    app.middleware(LogRuns())
    async with app.worker():
        job = await work.enqueue()
        await records.one("ERROR", "dead (retries_exhausted) after attempt 2 of 2: ")
        assert await app.admin.replay(job.id) == 1
        await records.one("ERROR", "dead (retries_exhausted) after attempt 2 of 2 since its replay")
        await records.one("WARNING", "failed, attempt 1 of 2 since its replay")
        broken = False
        assert await app.admin.replay(job.id) == 1
        await records.one("INFO", "attempt 1 since its replay: done after")
