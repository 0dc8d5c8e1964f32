"""The endpoints of a worker, on every kind of store."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace import ConfigError, Defer, Headrace, JobFailed, Reject, Retry
from headrace.core.job.tally import RUN_US, WAIT_US
from headrace.exposition import store_families
from headrace.exposition.endpoints import Endpoints, fleet_server, worker_endpoints
from headrace.exposition.server import ExpositionServer, HttpResponse
from headrace.metrics.totals import Totals
from headrace.worker.worker import Worker
from tests.exposition.scraping import Scrape, got, health, scraped
from tests.servers import RedisServer
from tests.worker.states import until


class Order(msgspec.Struct):
    id: str


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen is not kept: tests do not wait for it to grow old. On a machine that is busy a
    store may take its time."""
    monkeypatch.setattr(store_families, "_MAX_AGE", 0.0)
    monkeypatch.setattr(store_families, "_TIMEOUT", 60.0)


@pytest.fixture
async def closing(app: Headrace) -> AsyncIterator[None]:
    """For tests that ask from threads."""
    yield
    await asyncio.to_thread(app.portal.close)


def counted(app: Headrace) -> tuple[Worker, Endpoints]:
    worker = app.worker(concurrency=7)
    worker.totals = Totals()
    return worker, worker_endpoints(app, worker.totals)


async def asked(answer: object, headers: Mapping[str, str] | None = None) -> HttpResponse:
    assert callable(answer)
    page = await asyncio.to_thread(answer, headers or {})
    assert isinstance(page, HttpResponse)
    return page


async def scrape(endpoints: Endpoints) -> Scrape:
    return Scrape((await asked(endpoints.metrics)).body.decode())


@pytest.mark.usefixtures("closing")
async def test_jobs_are_counted_by_queue_task_and_outcome(app: Headrace) -> None:
    deferred: list[bool] = []

    @app.task
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0.005)
        return a + b

    @app.task(queue="mail", retry=Retry(2, base=0.01))
    async def fail() -> None:
        if not deferred:
            deferred.append(True)
            raise Defer(0.01)
        raise ValueError("no")

    worker, endpoints = counted(app)
    async with worker:
        jobs = await app.enqueue_many([add.call(1, 2) for _ in range(5)])
        for job in jobs:
            await job.result(30)
        with pytest.raises(JobFailed):
            await (await fail.enqueue()).result(30)
        await until(lambda: not worker.totals or worker.totals.presence().running == 0)
        found = await scrape(endpoints)
        ready = await asked(endpoints.readyz)
    name = "headrace_jobs_total"
    assert found.value(name, queue="default", task="add", outcome="done") == 5
    assert found.value(name, queue="mail", task="fail", outcome="retry") == 1
    assert found.value(name, queue="mail", task="fail", outcome="deferred") == 1
    assert found.value(name, queue="mail", task="fail", outcome="dead") == 1
    run = "headrace_job_run_seconds"
    assert found.types[run] == "histogram"
    assert found.value(f"{run}_bucket", queue="default", task="add", le="0.004") == 0
    assert found.value(f"{run}_bucket", queue="default", task="add", le="+Inf") == 5
    assert found.value(f"{run}_count", queue="default", task="add") == 5
    took = found.value(f"{run}_sum", queue="default", task="add")
    assert took is not None
    assert took >= 0.025
    assert found.value("headrace_job_wait_seconds_count", queue="default", task="add") == 5
    assert found.value("headrace_slots") == 7
    assert found.value("headrace_jobs_running") == 0
    assert found.value("headrace_lost_leases_total") == 0
    assert found.value("headrace_queue_jobs", queue="mail", state="dead") == 1
    assert found.value("headrace_queue_workers", queue="mail") == 1
    assert found.value("headrace_workers") == 1
    assert ready.status == 200


@pytest.mark.usefixtures("closing")
async def test_groups_are_counted_and_their_lag_is_reported(app: Headrace) -> None:
    orders = app.topic("orders", Order)
    handled = asyncio.Event()

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        handled.set()

    worker, endpoints = counted(app)
    async with worker:
        await orders.publish(Order("o-1"))
        await asyncio.wait_for(handled.wait(), 30)
        await until(lambda: not worker.totals or bool(worker.totals.snapshot().counts))
        await until(lambda: not worker.totals or bool(worker.totals.presence().consumers))
        found = await scrape(endpoints)
    assert found.total("headrace_jobs_total", queue="billing@orders", outcome="done") == 1
    assert found.value("headrace_topic_group_lag", topic="orders", group="billing") == 0
    assert found.total("headrace_consumers") == 1


@pytest.mark.usefixtures("closing")
async def test_events_that_a_bound_removed_are_reported(app: Headrace) -> None:
    orders = app.topic("orders", Order, max_length=2, overflow="drop_oldest")

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    await orders.publish_many([Order(f"o-{at}") for at in range(5)])
    worker, endpoints = counted(app)
    async with worker:
        found = await scrape(endpoints)
    assert found.value("headrace_topic_dropped_events", topic="orders") == 3


@pytest.mark.usefixtures("closing")
async def test_events_behind_a_stopped_key_are_part_of_the_lag(app: Headrace) -> None:
    orders = app.topic("orders", Order, key=lambda order: order.id)

    @orders.subscribe("billing", ordered=True, on_failure="block")
    async def bill(order: Order) -> None:
        raise Reject("no")

    await orders.publish_many([Order("o-1"), Order("o-1"), Order("o-1")])
    worker, endpoints = counted(app)
    async with worker:
        async with asyncio.timeout(30):
            while (await app.admin.queue("billing@orders")).blocked != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        found = await scrape(endpoints)
    figures = {"lag": 2, "behind": 0, "stopped_keys": 1, "stopped_events": 2}
    for name, figure in figures.items():
        family = f"headrace_topic_group_{name}"
        assert found.value(family, topic="orders", group="billing") == figure, name
    family = "headrace_topic_group_stopped_age_seconds"
    assert found.value(family, topic="orders", group="billing") is not None


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("closing")
async def test_runs_and_waits_are_counted_although_no_events_are_recorded(namespace: str) -> None:
    app = Headrace("memory://", namespace=namespace, events=False)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    worker, _ = counted(app)
    async with app, worker:
        await (await add.enqueue(1, 2)).result(30)
        await until(lambda: not worker.totals or bool(worker.totals.snapshot().counts))
        assert worker.totals
        counts = worker.totals.snapshot().counts["default"]["add"]
    assert counts["done"] == 1
    assert {RUN_US, WAIT_US} <= counts.keys()


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("closing")
async def test_a_scraper_chooses_the_format_and_whether_it_is_packed(app: Headrace) -> None:
    endpoints = worker_endpoints(app, Totals())
    plain = await asked(endpoints.metrics)
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    accept = "application/openmetrics-text; version=1.0.0"
    packed = await asked(endpoints.metrics, {"accept": accept, "accept-encoding": "gzip"})
    assert packed.encoding == "gzip"
    assert packed.content_type.startswith("application/openmetrics-text")
    text = gzip.decompress(packed.body).decode()
    found = {family.name for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert "headrace_slots" in found


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.usefixtures("closing")
async def test_a_blocked_event_loop_is_seen_from_outside(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.exposition.health._BLOCKED", 0.2)
    seen: list[HttpResponse] = []
    noticed = threading.Event()

    @app.task
    async def block() -> None:
        # On the loop, which can do nothing else until the probe has failed.
        noticed.wait(60)

    worker, endpoints = counted(app)

    def probe() -> None:
        ends_at = time.monotonic() + 60
        while time.monotonic() < ends_at and not noticed.is_set():
            seen.append(endpoints.healthz({}))
            if seen[-1].status == 503:
                noticed.set()
            time.sleep(0.02)

    async with worker:
        job = await block.enqueue()
        prober = threading.Thread(target=probe)
        prober.start()
        await job.result(60)
        await asyncio.to_thread(prober.join)
        assert b"the event loop has been blocked" in seen[-1].body
        await until(lambda: endpoints.healthz({}).status == 200)


def test_a_store_that_is_away_is_reported_and_everything_else_goes_on(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Headrace(redis_server.url)
    endpoints = worker_endpoints(app, Totals())
    assert Scrape(endpoints.metrics({}).body.decode()).value("headrace_store_up") == 1
    redis_server.stop()
    found = Scrape(endpoints.metrics({}).body.decode())
    assert found.value("headrace_store_up") == 0
    assert "headrace_queue_jobs" not in found.names
    assert found.value("headrace_slots") == 0
    assert b"the store cannot be reached" in endpoints.readyz({}).body
    app.portal.close()


async def test_errors_of_the_store_are_counted_by_what_was_done(redis_server: RedisServer) -> None:
    app = Headrace(redis_server.url, lease=0.6)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    totals = Totals()
    worker = app.worker()
    worker.totals = totals
    async with app, worker:
        redis_server.stop()
        await until(lambda: {"read", "heartbeat"} <= totals.snapshot().store_errors.keys())
        redis_server.start()
        assert await (await add.enqueue(1, 2)).result(30) == 3


def test_without_the_client_of_prometheus_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "headrace.exposition.prometheus")
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[metrics\]'"):
        importlib.import_module("headrace.exposition.prometheus")


@pytest.fixture
def served() -> Iterator[str]:
    def broken(_: Mapping[str, str]) -> HttpResponse:
        raise RuntimeError("a bug")

    answers = {
        "/hello": lambda headers: HttpResponse(headers["user-agent"].encode()),
        "/broken": broken,
    }
    exposition = ExpositionServer("127.0.0.1", 0, answers)
    exposition.start()
    yield exposition.url
    exposition.close()


def test_pages_are_served_by_path(served: str) -> None:
    assert got(f"{served}/hello?x=1", **{"User-Agent": "me"})[:2] == (200, b"me")
    assert got(f"{served}/")[:2] == (404, b"here are /hello, /broken\n")


def test_a_page_that_fails_fails_alone(served: str) -> None:
    assert got(f"{served}/broken")[0] == 500
    assert got(f"{served}/hello")[0] == 200


def test_a_host_that_is_not_here_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot serve on port 0"):
        ExpositionServer("192.0.2.1", 0, {})


def test_the_fleet_is_served_for_a_dashboard() -> None:
    app = Headrace("memory://")
    exposition = fleet_server(app, "127.0.0.1", 0)
    exposition.start()
    assert scraped(exposition.url).value("headrace_store_up") == 1
    assert health(f"{exposition.url}/healthz")[0] == 200
    assert health(f"{exposition.url}/readyz") == (200, {"ok": True, "reasons": []})
    exposition.close()
    app.portal.close()
