"""The log names jobs that die inside the store: with a job they waited for, or with their key."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Headrace, Retry, group
from headrace.core.job import ids
from headrace.store.deaths import Deaths
from headrace.worker.logs.store_deaths import StoreDeathLog
from tests.faults.odd_values import QUEUE, OddRedis
from tests.worker import topics
from tests.worker.logs.records import Records


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    return Records(caplog)


@pytest.mark.parametrize("queue", ["default", "elsewhere"])
async def test_a_job_that_dies_with_another_has_a_line_of_its_own(
    app: Headrace, records: Records, queue: str
) -> None:
    @app.task(retry=Retry(1))
    async def fetch() -> None:
        raise OSError("no route")

    @app.task(queue=queue)
    async def store() -> None: ...

    worker = app.worker()
    async with worker:
        first = await app.enqueue(store.call().after(fetch.call()))
        failed = await records.one("ERROR", "fetch ")
        record = await records.one("ERROR", "(parent_failed)")
    assert failed.created <= record.created, "what failed first comes first"
    why = f"job {failed.job} of queue 'default' failed, and it waited for that"
    assert record.getMessage() == f"store {first.id} is dead (parent_failed): {why}"
    assert (record.job, record.queue, record.task) == (first.id, queue, "store")
    assert (record.reason, record.error, record.worker) == ("parent_failed", why, worker.name)
    assert (record.failed_job, record.failed_queue) == (failed.job, "default")


async def test_many_that_die_with_one_job_are_few_lines(app: Headrace, records: Records) -> None:
    @app.task(retry=Retry(1))
    async def fetch() -> None:
        raise OSError("no route")

    @app.task
    async def store(number: int) -> None: ...

    parent = fetch.call()
    await app.enqueue(group(store.call(number).after(parent) for number in range(600)))
    async with app.worker():
        await records.one("ERROR", "fetch ")
        while (await app.store.count("default")).dead < 601:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    lines = records("ERROR", "(parent_failed)")
    assert sum(line.count for line in lines) == 600
    assert 1 <= len(lines) <= 5
    (ended,) = records("INFO", " ended after ")
    assert (ended.dead, ended.dead_with_another) == (601, 600)


async def test_events_that_die_with_their_key_have_a_line(app: Headrace, records: Records) -> None:
    orders = topics.orders_of(app)

    @orders.subscribe("billing", ordered=True, on_failure="fail_key", retry=Retry(1))
    async def bill(order: topics.Order) -> None:
        raise RuntimeError("no card")

    async with app.worker():
        await orders.publish_many([topics.Order("o-1") for _ in range(5)], key="o-1")
        await records.one("ERROR", "is dead (retries_exhausted)")
        while (await app.store.count("billing@orders")).dead < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    lines = records("ERROR", "(key_failed)")
    assert sum(getattr(line, "count", 1) for line in lines) == 4
    assert "an event of the same key, 'o-1', failed before" in lines[0].getMessage()


async def test_what_follows_within_a_second_is_one_more_line(records: Records) -> None:
    log = StoreDeathLog()
    job = ids.new_id()
    for count in (500, 500, 1):
        log.died([Deaths("default", "malformed", "resize", b"no\nlane", job, count)])
    log.close()
    id = ids.to_text(job)
    assert records.texts("ERROR") == [
        f"resize: 500 jobs are dead (malformed), the first is {id}: no lane",
        f"resize: 501 more are dead (malformed) in the last second, one of the latest is {id}: "
        "no lane",
    ]
    assert [record.count for record in records("ERROR")] == [500, 501]
    assert log.count == 1001


async def test_a_job_that_cannot_be_promoted_has_a_line(
    redis_url: str, namespace: str, records: Records
) -> None:
    app = Headrace(redis_url, namespace=namespace)
    release = asyncio.Event()

    @app.task(queue=QUEUE)
    async def hold() -> None:
        await release.wait()

    async with app, app.worker():
        before = await hold.options(key="a").enqueue()
        odd = OddRedis(redis_url, namespace)
        odd.run("SET", f"{odd.keys.lane}key:a", "no line of jobs")
        odd.client.close()
        job = await hold.options(key="a", delay=0.05).enqueue()
        record = await records.one("ERROR", job.id)
        release.set()
        await before.result(30)
    assert record.getMessage().startswith(f"hold {job.id} is dead (malformed): it could not be ")
    assert (record.queue, record.task, record.reason) == (QUEUE, "hold", "malformed")
