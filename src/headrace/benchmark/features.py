"""What features cost: the same empty task, constrained, delayed, batched, chained, cancelled or
traced."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace import Call, Headrace, Tracing, chain
from headrace.benchmark.figures import CONCURRENCY, Figure, Report, Sizes, middle, percentile
from headrace.benchmark.jobs import fresh_app, jobs_on

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

_KEYS = 10_000
_SLOTS = 512
_AT_ONCE = 5_000
_OFF = "off"
_SAMPLED = {"not sampled": 0.0, "1 % sampled": 0.01, "all sampled": 1.0}
_LEAST = {"not sampled": 0.75, "1 % sampled": 0.75}
"""The least share of the drain without tracing. To make a sampled span takes the SDK several times
as long as an empty job."""


class Features:
    """Measurements on one app, each on a queue of its own; jobs per second or seconds."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._left = 0
        self._all_ran = asyncio.Event()
        self._started: list[float] = []
        task = app.task
        self._plain = task(name="plain", queue="plain", result_ttl=0)(self._note)
        self._keyed = task(name="keyed", queue="keyed", result_ttl=0, concurrency=1)(self._note)
        self._late = task(name="late", queue="late", result_ttl=0)(self._note)
        self._doomed = task(name="doomed", queue="doomed", result_ttl=0)(self._note)
        self._many = task(name="many", queue="many", result_ttl=0, batch=500, max_wait=0.05)(
            self._note_all
        )
        self._step = task(name="step", queue="step", result_ttl=0)(self._pass_on)

    async def _note(self, number: int) -> None:
        self._started.append(time.time())
        self._count(1)

    async def _note_all(self, numbers: list[int]) -> None:
        self._count(len(numbers))

    async def _pass_on(self, number: int) -> int:
        self._count(1)
        return number + 1

    def _count(self, ran: int) -> None:
        self._left -= ran
        if self._left <= 0:
            self._all_ran.set()

    async def plain(self, count: int) -> float:
        return await self._drain("plain", [self._plain.call(n) for n in range(count)])

    async def keyed(self, count: int) -> float:
        tasks = [self._keyed.options(key=f"customer-{n}") for n in range(_KEYS)]
        return await self._drain("keyed", [tasks[n % _KEYS].call(n) for n in range(count)])

    async def one_key(self, count: int) -> float:
        task = self._keyed.options(key="the-only-one")
        return await self._drain("keyed", [task.call(n) for n in range(count)])

    async def batched(self, count: int) -> float:
        return await self._drain("many", [self._many.call(n) for n in range(count)])

    async def chained(self, steps: int) -> float:
        others = [self._step.call() for _ in range(steps - 1)]
        async with self._expecting("step", steps):
            began = time.perf_counter()
            await self._app.enqueue(chain(self._step.call(0), *others))
            await self._all_ran.wait()
            return steps / (time.perf_counter() - began)

    async def due_at_once(self, count: int) -> float:
        """Seconds from the moment at which all are due to the start of the last."""
        due = datetime.now(UTC) + timedelta(seconds=2 + count / 10_000)
        task = self._late.options(at=due)
        async with self._expecting("late", count):
            await self._app.enqueue_many(task.call(n) for n in range(count))
            await self._all_ran.wait()
        return max(self._started) - due.timestamp()

    async def lateness(self, count: int) -> list[float]:
        """Seconds by which each of some delayed jobs starts after its time, on a worker that has
        nothing else to do."""
        late: list[float] = []
        async with self._expecting("late", 1):
            for number in range(count):
                self._left = 1
                self._all_ran.clear()
                self._started.clear()
                due = datetime.now(UTC) + timedelta(milliseconds=40 + number % 20)
                await self._late.options(at=due).enqueue(number)
                await self._all_ran.wait()
                late.append(self._started[0] - due.timestamp())
        return late

    async def cancelled(self, count: int) -> float:
        """Seconds to cancel this many waiting jobs by a filter."""
        await self._app.enqueue_many(self._doomed.call(n) for n in range(count))
        began = time.perf_counter()
        report = await self._app.admin.cancel(queue="doomed", task="doomed")
        took = time.perf_counter() - began
        if report.cancelled != count:
            raise RuntimeError(f"{report.cancelled} of {count} jobs were cancelled")
        return took

    async def _drain(self, queue: str, calls: Sequence[Call[Any]]) -> float:
        await self._app.enqueue_many(calls)
        async with self._expecting(queue, len(calls)) as began:
            await self._all_ran.wait()
            # No signal says that the last outcome is written.
            while await self._alive(queue):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            return len(calls) / (time.perf_counter() - began)

    async def _alive(self, queue: str) -> int:
        counts = await self._app.store.count(queue)
        return counts.waiting + counts.running + counts.blocked

    @asynccontextmanager
    async def _expecting(self, queue: str, count: int) -> AsyncIterator[float]:
        """A worker for this many jobs, and the moment it was started."""
        self._left = count
        self._all_ran.clear()
        self._started.clear()
        began = time.perf_counter()
        async with self._app.worker(queues=[queue], concurrency=_SLOTS):
            yield began


@asynccontextmanager
async def features_on(url: str, *, events: bool = True) -> AsyncIterator[Features]:
    async with fresh_app(url, events=events) as app:
        yield Features(app)


async def measure_features(url: str, store: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Features against the plain drain of the same run; the record of events is on."""
    plain, keyed, batched, one_key, chained, due, cancelled = [], [], [], [], [], [], []
    late: list[float] = []
    for _ in range(sizes.repeats):
        report(f"{store}: keys, batches, chains, delays, cancelling")
        async with features_on(url) as features:
            plain.append(await features.plain(sizes.features))
            keyed.append(await features.keyed(sizes.features))
            batched.append(await features.batched(sizes.features))
            one_key.append(await features.one_key(sizes.one_key))
            chained.append(await features.chained(1_000))
            due.append(await features.due_at_once(10_000))
            cancelled.append(await features.cancelled(10_000))
            late += await features.lateness(sizes.lateness)
    drain = middle(plain)
    lateness = percentile(late, 99) * 1000
    return [
        Figure(f"{store}: 10,000 keys, to plain", middle(keyed), "/s", drain, 0.4),
        Figure(f"{store}: batches of 500, to plain", middle(batched), "/s", drain, 1.5),
        Figure(f"{store}: one key", middle(one_key), "/s", limit=500),
        Figure(f"{store}: chain of 1,000", middle(chained), "steps/s", limit=300),
        Figure(f"{store}: 10,000 due at once", middle(due), "s", limit=2.0, at_most=True),
        Figure(f"{store}: delayed, p99 late by", lateness, "ms", limit=25, at_most=True),
        Figure(f"{store}: cancel 10,000", middle(cancelled), "s", limit=2.0, at_most=True),
    ]


async def measure_tracing(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Each job has its own trace, which costs the most."""
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        report("tracing is left out: pip install opentelemetry-sdk to measure it")
        return []
    rates: dict[str, list[float]] = {name: [] for name in (_OFF, *_SAMPLED)}
    for _ in range(sizes.repeats):
        report("Redis: drain with and without tracing")
        for name, measured in rates.items():
            measured.append(await _drain(url, sizes.compared, _SAMPLED.get(name)))
    off = middle(rates[_OFF])
    return [
        Figure(f"drain traced, {name}, to off", middle(rates[name]), "/s", off, _LEAST.get(name))
        for name in _SAMPLED
    ]


async def _drain(url: str, count: int, sampled: float | None) -> float:
    async with jobs_on(url) as jobs:
        if sampled is None:
            await jobs.send_many(jobs.forgotten, count)
            return await jobs.drain(jobs.forgotten, CONCURRENCY)
        provider = _provider(sampled)
        try:
            jobs.app.middleware(Tracing(provider))
            for at in range(0, count, _AT_ONCE):
                await jobs.send_gathered(min(_AT_ONCE, count - at))
            return await jobs.drain(jobs.forgotten, CONCURRENCY)
        finally:
            provider.shutdown()


def _provider(sampled: float) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Nowhere(SpanExporter):
        """Drops all spans."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(sampled))
    # Large enough that no span is dropped, which would cost less than to keep it.
    spans = BatchSpanProcessor(Nowhere(), max_queue_size=1 << 17, max_export_batch_size=1 << 12)
    provider.add_span_processor(spans)
    return provider
