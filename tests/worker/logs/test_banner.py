"""What a worker says when it starts, runs, stops and ends."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from headrace import Headrace, Retry
from headrace.core.version import VERSION
from headrace.worker.logs.banner import Banner
from headrace.worker.worker_outcome import WorkerOutcome
from tests.worker import topics
from tests.worker.logs.records import Records
from tests.worker.states import until


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    return Records(caplog)


async def test_a_worker_names_its_store_its_app_and_its_capacity(
    app: Headrace, records: Records
) -> None:
    @app.task(queue="mail")
    async def send_mail() -> None: ...

    @app.cron("0 4 * * *")
    async def clean_up() -> None: ...

    @topics.orders_of(app).subscribe("billing")
    async def bill(order: topics.Order) -> None: ...

    worker = app.worker(concurrency=7, threads=3, processes=1)
    async with worker:
        pass
    (starts,) = records("INFO", " starts on ")
    assert starts.getMessage() == (
        f"headrace {VERSION}: worker {worker.name} starts on {app.shown_url}, "
        f"namespace {app.namespace}"
    )
    assert (starts.version, starts.namespace) == (VERSION, app.namespace)
    (runs,) = records("INFO", " runs ")
    assert runs.getMessage() == (
        f"worker {worker.name} runs default, mail, billing@orders (2 tasks, 1 schedule, 1 group) "
        "with 7 slots, 3 threads, 1 process"
    )
    assert runs.queues == ["default", "mail", "billing@orders"]
    assert (runs.tasks, runs.schedules, runs.groups) == (2, 1, 1)
    assert (runs.slots, runs.threads, runs.processes) == (7, 3, 1)


async def test_a_supervisor_says_it_once_for_all_its_workers(
    app: Headrace, records: Records
) -> None:
    @app.task(queue="mail")
    async def send_mail() -> None: ...

    worker = app.worker(queues=["mail"], concurrency=7, threads=3, processes=1)
    banner = Banner(app, worker.settings)
    banner.supervises(2, 2)
    banner.supervises(1, 8)
    worker.is_supervised = True
    async with worker:
        pass
    said = [record.getMessage() for record in records("INFO") if "stop" not in record.getMessage()]
    rest = f"on {app.shown_url}, namespace {app.namespace}"
    assert said[0] == f"headrace {VERSION}: 2 worker processes start {rest}"
    capacity = "mail (1 task, 0 schedules, 0 groups) with 7 slots, 3 threads, 1 process"
    assert said[1] == f"each works on {capacity}"
    assert said[2] == f"headrace {VERSION}: 1 to 8 worker processes start {rest}"
    assert said[4] == f"worker {worker.name} runs mail"
    first, second, *_ = records("INFO")
    assert (first.name, first.least, first.most) == ("headrace.supervisor", 2, 2)
    assert (second.queues, second.tasks, second.slots) == (["mail"], 1, 7)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////srv/shop/jobs.db", "sqlite:////srv/shop/jobs.db"),
        ("memory://", "memory://"),
        ("redis://ann:secret@host:6379/0", "redis://***@host:6379/0"),
        ("redis://host:6379/0?password=secret", "redis://host:6379/0?password=***"),
    ],
)
def test_a_store_is_shown_without_secrets(url: str, shown: str, records: Records) -> None:
    app = Headrace(url)
    banner = Banner(app, app.worker(queues=["mail"]).settings)
    banner.starts()
    banner.supervises(1, 2)
    said = records("INFO", f" on {shown}, namespace ")
    assert [record.store for record in said] == [shown, shown]
    assert not [record for record in records("INFO") if "secret" in str(vars(record))]


def test_a_file_is_shown_with_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert Headrace("sqlite:///jobs.db").shown_url == f"sqlite:///{tmp_path}/jobs.db"


async def test_all_records_of_a_worker_have_its_name(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(1))
    async def fail() -> None:
        raise ValueError

    worker = app.worker()
    async with worker:
        job = await fail.enqueue()
        await records.one("ERROR", job.id)
    assert {record.worker for record in records()} == {worker.name}


async def test_a_worker_that_stops_says_what_it_waits_for(app: Headrace, records: Records) -> None:
    gate = asyncio.Event()
    began: list[str] = []

    @app.task
    async def slow() -> None:
        began.append("slow")
        await gate.wait()

    worker = app.worker()
    async with worker:
        job = await slow.enqueue()
        await until(lambda: began)
        worker.stop()
        record = await records.one("INFO", "stops, and takes no more jobs; it waits up to 25 s")
        gate.set()
    assert f"for 1 run: slow {job.id} (for " in record.getMessage()
    assert (record.running, record.jobs) == (1, [job.id])
    (ended,) = records("INFO", " ended after ")
    said = r" ended after [\d.]+ m?s: clean; 0 failed attempts, 0 dead"
    assert re.search(f"{said}$", ended.getMessage())


async def test_runs_that_are_cut_short_are_named(app: Headrace, records: Records) -> None:
    began: list[str] = []

    @app.task
    async def slow() -> None:
        began.append("slow")
        await asyncio.sleep(600)

    worker = app.worker(drain=0.0)
    async with worker:
        job = await slow.enqueue()
        await until(lambda: began)
    (cut,) = records("WARNING", "1 run is cut short, to run again: ")
    assert f"slow {job.id}" in cut.getMessage()
    (ended,) = records("WARNING", " ended after ")
    assert "jobs were cut short" in ended.getMessage()
    assert ended.exit_code == 3


async def test_the_end_of_a_worker_says_how_much_failed(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(2, base=0.0))
    async def fail() -> None:
        raise ValueError

    async with app.worker():
        job = await fail.enqueue()
        await records.one("ERROR", job.id)
    (ended,) = records("INFO", " ended after ")
    assert ended.getMessage().endswith("clean; 2 failed attempts, 1 dead")
    assert (ended.failed_attempts, ended.dead) == (2, 1)


async def test_the_end_of_a_burst_says_how_much_was_done(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(1))
    async def halve(number: int) -> int:
        if number % 2:
            raise ValueError
        return number // 2

    await app.enqueue_many(halve.call(number) for number in range(5))
    await app.worker(burst=True).run()
    (ended,) = records("INFO", " ended after ")
    assert ended.getMessage().endswith("clean; 3 done, 2 failed attempts, 2 dead")
    assert (ended.done, ended.dead) == (3, 2)


async def test_the_end_of_a_worker_says_that_others_died_with_jobs_of_flows(
    app: Headrace, records: Records
) -> None:
    @app.task(retry=Retry(1))
    async def fail() -> None:
        raise ValueError

    @app.task
    async def last() -> None: ...

    async with app.worker():
        await app.enqueue(last.call().after(fail.call()))
        await records.one("ERROR", "fail ")
    (ended,) = records("INFO", " ended after ")
    assert ended.getMessage().endswith("2 dead, 1 of them with another")
    assert (ended.dead, ended.dead_with_another) == (2, 1)


def test_an_outcome_says_what_went_wrong() -> None:
    assert str(WorkerOutcome()) == "clean"
    assert str(WorkerOutcome(errors=2, timed_out=True, unhandled_events=1)) == (
        "jobs were cut short, outcomes that could not be written: 2, unhandled events: 1"
    )


async def test_a_queue_that_nobody_declared_is_a_warning(app: Headrace, records: Records) -> None:
    @app.task(queue="mail")
    async def send_mail() -> None: ...

    await send_mail.options(queue="at-run-time").enqueue()
    async with app.worker(queues=["mail", "mial", "at-run-time"]):
        pass
    (record,) = records("WARNING", "does not declare queue")
    assert record.getMessage() == (
        "this app does not declare queue 'mial', and nothing was ever sent to it: did you mean "
        "'mail'?"
    )
    assert record.queue == "mial"


async def test_another_program_on_the_same_queue_is_noticed(
    tmp_path: Path, records: Records
) -> None:
    shop, shops, bank, mill = (Headrace(f"sqlite:///{tmp_path}/jobs.db") for _ in range(4))

    async def work() -> None: ...

    for app, name, queue in (
        (shop, "ship", "default"), (shops, "ship", "default"), (shops, "pay", "default"),
        (bank, "book", "default"), (mill, "grind", "mill"),
    ):  # fmt: skip
        app.task(name=name, queue=queue)(work)
    renamed = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    renamed.task(name="shop.ship", aliases=["ship"])(work)
    async with shop.worker(), shops.worker(), renamed.worker(), mill.worker() as far:
        assert not records("WARNING", "namespace")
        async with bank.worker():
            pass
    (warned,) = records("WARNING", "namespace")
    assert warned.other_worker != far.name
    assert warned.queue == "default"
    assert " reads queue 'default' in namespace 'headrace' too, and its tasks are all others (" in (
        warned.getMessage()
    )
    assert warned.getMessage().endswith("with Headrace(namespace=…) or HEADRACE_NAMESPACE")


async def test_a_worker_that_waits_for_topics_names_its_groups(records: Records) -> None:
    app = Headrace("memory://")

    @app.subscribe(["orders.*", "refunds"], "billing")
    async def bill(event: bytes) -> None: ...

    async with app.worker():
        pass
    (runs,) = records("INFO", " runs ")
    assert " runs billing@orders.*,refunds (0 tasks" in runs.getMessage()
