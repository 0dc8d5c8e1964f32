"""Failures by reason and error, sends, sizes and batches; sinks that are not Prometheus."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from headrace import ConfigError, Headrace, JobFailed, Reject, Retry
from headrace.core.sends import Sends
from headrace.exposition.endpoints import worker_endpoints
from headrace.exposition.prometheus import send_collector
from headrace.metrics.family import MetricSample
from headrace.metrics.opentelemetry import OpenTelemetryMetrics
from headrace.metrics.pusher import MetricsPusher
from headrace.metrics.statsd import Statsd
from headrace.metrics.totals import OTHER, Totals, failures_in, merged
from tests.exposition.scraping import Scrape

Samples = Sequence[MetricSample]


class Order(msgspec.Struct):
    id: str


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://", metrics_prefix="shop")


def value(samples: Samples, name: str, **labels: str) -> float | None:
    found = [each.value for each in samples if (each.name, each.labels) == (name, labels)]
    assert len(found) <= 1
    return found[0] if found else None


async def worked(app: Headrace) -> None:
    """Some jobs and events, of which some fail."""
    orders = app.topic("orders", Order, shards=2, key=lambda order: order.id)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        pass

    @app.task(retry=Retry(2, base=0.001))
    async def fail(how: str) -> None:
        raise Reject("no") if how == "reject" else KeyError(how)

    @app.task(batch=3, max_wait=0.01)
    async def load(numbers: list[int]) -> list[int]:
        return numbers

    async with app, app.worker():
        for how in ("reject", "once more"):
            with pytest.raises(JobFailed):
                await (await fail.enqueue(how)).result(30)
        jobs = await app.enqueue_many([load.call(number) for number in range(3)])
        await asyncio.gather(*(job.result(30) for job in jobs))
        await orders.publish_many([Order(str(number)) for number in range(5)])


async def test_a_sink_gets_failures_sends_sizes_and_batches(app: Headrace) -> None:
    pushed: list[Samples] = []
    app.metrics(pushed.append, every=3600)
    await worked(app)
    app.metrics_pushers[0].push()
    (last,) = pushed
    where = {"queue": "default", "task": "fail"}
    assert value(
        last, "shop_dead_total", **where, reason="rejected", error="headrace.errors.Reject"
    )
    assert (
        value(last, "shop_dead_total", **where, reason="retries_exhausted", error="KeyError") == 1
    )
    assert value(last, "shop_failed_attempts_total", **where, error="KeyError") == 2
    assert value(last, "shop_enqueue_jobs_total", queue="default", outcome="ok") == 5
    assert value(last, "shop_enqueue_jobs_total", queue="default", outcome="failed") == 0
    assert value(last, "shop_publish_events_total", topic="orders", outcome="ok") == 5
    assert value(last, "shop_publish_bytes_count", topic="orders") == 5
    assert (value(last, "shop_enqueue_seconds_count", queue="default") or 0) >= 3
    assert value(last, "shop_batch_size_sum", task="load") == 3
    assert value(last, "shop_jobs_running") == 0


async def test_the_page_for_prometheus_has_the_same_under_the_prefix(app: Headrace) -> None:
    totals = Totals(app.sends)
    await worked(app)
    page = await asyncio.to_thread(worker_endpoints(app, totals).metrics, {})
    await asyncio.to_thread(app.portal.close)
    scrape = Scrape(page.body.decode())
    assert scrape.value("shop_enqueue_jobs_total", queue="default", outcome="ok") == 5
    assert all(name.startswith("shop_") for name in scrape.names)


async def test_a_process_that_only_sends_can_be_collected(app: Headrace) -> None:
    collector = send_collector(app)

    @app.task
    async def add() -> None:
        pass

    async with app:
        await add.enqueue()
    found = {metric.name: metric.samples for metric in collector.collect()}
    assert [sample.value for sample in found["shop_enqueue_jobs"]] == [1, 0]


async def test_sends_that_fail_are_counted_as_such(app: Headrace) -> None:
    app.queue("small", max_length=1)
    app.sends.on = True

    @app.task(queue="small")
    async def add(number: int) -> None:
        pass

    async with app:
        with pytest.raises(Exception, match="were not stored"):
            await app.enqueue_many([add.call(number) for number in range(3)])
    counts = app.sends.counts["small"]
    assert (counts["sent"], counts["failed"]) == (1, 2)


async def test_nothing_is_counted_unless_somebody_asks(app: Headrace) -> None:
    await worked(app)
    assert app.sends.counts == {}


def test_kinds_of_errors_beyond_a_thousand_are_one() -> None:
    totals = Totals()
    for number in range(1100):
        totals.count_failure("default", "add", "", f"Error{number}")
    found = failures_in(totals.snapshot())
    assert len(found) == 1001
    assert found["default", "add", "", OTHER] == 100  # type: ignore[index]


def test_processes_add_up() -> None:
    one, other = Totals(), Totals()
    for totals in (one, other, other):
        totals.count_failure("default", "add", "rejected", "Reject")
        totals.count_batch("load", 7)
    both = merged([one.snapshot(), other.snapshot()])
    assert list(failures_in(both).values()) == [3]
    assert both.batches == {"load": {"7": 3}}


# Sinks


def sample(value: float, kind: str = "counter", **labels: str) -> MetricSample:
    name = "headrace_jobs_total" if kind == "counter" else "headrace_slots"
    return MetricSample(name, kind, labels, value)  # type: ignore[arg-type]


@pytest.fixture
def heard() -> Iterator[tuple[int, Callable[[], list[str]]]]:
    """A port, and the lines of the next packet that came there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        yield server.getsockname()[1], lambda: server.recv(65536).decode().split("\n")


def test_statsd_gets_what_counters_grew_by_with_tags(
    heard: tuple[int, Callable[[], list[str]]],
) -> None:
    port, lines = heard
    sink = Statsd(port=port)
    sink([sample(3, queue="mail", task="a:b|c"), sample(7, "gauge")])
    assert lines() == ["headrace_jobs_total:3|c|#queue:mail,task:a_b_c", "headrace_slots:7|g"]
    sink([sample(10, queue="mail", task="a:b|c"), sample(7, "gauge")])
    assert lines() == ["headrace_jobs_total:7|c|#queue:mail,task:a_b_c", "headrace_slots:7|g"]


def test_statsd_without_tags_has_labels_in_names_and_bounded_packets(
    heard: tuple[int, Callable[[], list[str]]],
) -> None:
    port, lines = heard
    Statsd("localhost", port, tags=False)(
        [sample(number + 1, queue=f"queue.{number}") for number in range(100)]
    )
    first, rest = lines(), lines()
    assert first[0] == "headrace_jobs_total.queue_0:1|c"
    assert len("\n".join(first)) <= 1432
    while len(first) + len(rest) < 100:
        rest += lines()


async def test_opentelemetry_collects_the_latest_values(app: Headrace) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    app.metrics(OpenTelemetryMetrics(provider.get_meter("test")), every=3600)
    await worked(app)
    app.metrics_pushers[0].push()
    data = reader.get_metrics_data()
    assert data is not None
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    found = {each.name: list(each.data.data_points) for each in metrics}
    ok: Any = found["shop_enqueue_jobs_total"][0]
    assert (ok.value, ok.attributes) == (5, {"queue": "default", "outcome": "ok"})
    provider.shutdown()


def test_a_pusher_pushes_in_a_thread_of_its_own_until_it_is_closed() -> None:
    pushed = threading.Event()
    threads: list[str] = []

    def sink(_: Samples) -> None:
        threads.append(threading.current_thread().name)
        pushed.set()

    pusher = MetricsPusher(sink, 0.1, "headrace", Sends())
    pusher.start()
    pusher.start()
    assert pushed.wait(30)
    pusher.close()
    pusher.close()
    assert threads[0] == "headrace-metrics"
    assert threads.count(threading.current_thread().name) == 1


def test_a_sink_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def sink(_: Samples) -> None:
        raise OSError("no route")

    pusher = MetricsPusher(sink, 10, "headrace", Sends())
    pusher.push()
    pusher.push()
    assert [one.getMessage() for one in caplog.records] == [
        "metrics could not be pushed: OSError('no route')"
    ]


def test_what_cannot_be_a_sink_or_a_prefix_is_refused(app: Headrace) -> None:
    async def late(_: Samples) -> None: ...

    with pytest.raises(ConfigError, match="takes a plain function of samples"):
        app.metrics(late)
    with pytest.raises(ConfigError, match="takes a plain function of samples"):
        app.metrics(3)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r"every must be at least 0\.1"):
        app.metrics(print, every=0)
    with pytest.raises(ConfigError, match="no digit first"):
        Headrace("memory://", metrics_prefix="1shop")
