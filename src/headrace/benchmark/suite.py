"""All measurements, in one run, so that their ratios mean something on a noisy machine."""

from __future__ import annotations

import os
import platform
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing, contextmanager, nullcontext
from typing import Any

import msgspec

from headrace.benchmark.dashboard import measure_dashboard, measure_metrics
from headrace.benchmark.features import measure_features, measure_tracing
from headrace.benchmark.figures import (
    CONCURRENCY,
    DEFAULT,
    Figure,
    Report,
    Sizes,
    middle,
    percentile,
)
from headrace.benchmark.footprint import measure_footprint, measure_starts
from headrace.benchmark.jobs import Jobs, jobs_on
from headrace.benchmark.loop import run_quickly
from headrace.benchmark.processes import private_redis
from headrace.benchmark.raw import RawLimits, RawSqlite
from headrace.benchmark.runners import measure_runners
from headrace.benchmark.topics import TopicRates, topics_on


async def measure_redis(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Raw and Headrace take turns; each figure is the median of its repeats."""
    raw = RawLimits(url)
    try:
        return [
            *await _drains(url, raw, sizes, report),
            *await _sends(url, raw, sizes, report),
            *await _latencies("enqueue to handler", lambda: jobs_on(url), raw, sizes, report),
            *await measure_footprint(url, sizes, report),
            *await measure_starts(url, report),
            *await measure_runners(url, sizes, report),
            *await _events(url, sizes, report),
            *await measure_metrics(url, sizes, report),
            *await measure_tracing(url, sizes, report),
            *await measure_dashboard(url, "Redis", sizes, report),
            *await _topics(url, raw, sizes, report),
            *await measure_features(url, "Redis", sizes, report),
        ]
    finally:
        await raw.close()


async def measure_sqlite(sizes: Sizes, report: Report) -> list[Figure]:
    drains, many = [], []
    bare: list[float] = []
    lone: list[float] = []
    for _ in range(sizes.repeats):
        report("SQLite: send and drain")
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=".") as folder:
            async with jobs_on(f"sqlite:///{folder}/jobs.db") as jobs:
                many.append(await jobs.send_many(jobs.forgotten, sizes.sqlite_drain))
                drains.append(await jobs.drain(jobs.forgotten, CONCURRENCY))
                with closing(RawSqlite(f"{folder}/raw.db")) as raw:
                    # In short turns: what else the disk does then hits both alike.
                    for _ in range(sizes.sqlite_lone // sizes.lone_round):
                        bare.append(raw.add_one_by_one(sizes.lone_round))
                        lone.append(await jobs.send_one_by_one(sizes.lone_round))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=".") as folder:
        features = await measure_features(f"sqlite:///{folder}/jobs.db", "SQLite", sizes, report)
        dashboard = await measure_dashboard(f"sqlite:///{folder}/jobs.db", "SQLite", sizes, report)
    one_by_one = middle(lone)
    return [
        Figure("SQLite: drain", middle(drains), "/s", limit=25_000),
        Figure("SQLite: enqueue_many by 500", middle(many), "/s", limit=80_000),
        Figure("SQLite: enqueue one by one", one_by_one, "/s", limit=4_000),
        Figure("SQLite: one by one, to bare SQLite", one_by_one, "/s", middle(bare), 0.7),
        *features,
        *dashboard,
    ]


async def _events(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    figures = []
    for name, concurrency in ("drain", CONCURRENCY), ("drain, default options", DEFAULT):
        on: list[float] = []
        off: list[float] = []
        for _ in range(sizes.repeats):
            report("Redis: drain with and without events")
            for events, rates in ((False, off), (True, on)):
                async with jobs_on(url, events=events) as jobs:
                    await jobs.send_many(jobs.forgotten, sizes.compared)
                    rates.append(await jobs.drain(jobs.forgotten, concurrency))
        figures.append(
            Figure(f"{name}, with events, to without", middle(on), "/s", middle(off), 0.9)
        )
    return figures


async def _drains(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    script, limit, many, drain, kept, narrow, usual, usual_kept = [], [], [], [], [], [], [], []
    for _ in range(sizes.repeats):
        report("Redis: send and drain")
        script.append(await raw.add_by_script(sizes.drain))
        limit.append(await raw.drain(sizes.drain))
        async with jobs_on(url) as jobs:
            many.append(await jobs.send_many(jobs.forgotten, sizes.drain))
            drain.append(await jobs.drain(jobs.forgotten, CONCURRENCY))
            await jobs.send_many(jobs.kept, sizes.drain)
            kept.append(await jobs.drain(jobs.kept, CONCURRENCY))
            await jobs.send_many(jobs.forgotten, sizes.drain)
            narrow.append(await jobs.drain(jobs.forgotten, DEFAULT))
        async with jobs_on(url, events=True) as jobs:
            await jobs.send_many(jobs.forgotten, sizes.drain)
            usual.append(await jobs.drain(jobs.forgotten, DEFAULT))
            await jobs.send_many(jobs.kept, sizes.drain)
            usual_kept.append(await jobs.drain(jobs.kept, DEFAULT))
    raw_drain = middle(limit)
    return [
        Figure("drain, no results", middle(drain), "/s", raw_drain, 0.55),
        Figure("drain, results kept", middle(kept), "/s", raw_drain, 0.40),
        Figure("drain, no results, 100 slots", middle(narrow), "/s", raw_drain),
        Figure("drain, default options", middle(usual), "/s", raw_drain, 0.75),
        Figure("drain, default options, results kept", middle(usual_kept), "/s", raw_drain, 0.62),
        Figure("enqueue_many by 500", middle(many), "/s", middle(script), 0.30),
    ]


async def _sends(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    limit, lone = [], []
    async with jobs_on(url) as jobs:
        report("Redis: send one by one, and all at once")
        await jobs.send_one_by_one(sizes.lone_round)
        # In short turns: what else the machine does then hits both alike.
        for _ in range(sizes.lone_rounds):
            limit.append(await raw.add_one_by_one(sizes.lone_round))
            lone.append(await jobs.send_one_by_one(sizes.lone_round))
        gathered = [await jobs.send_gathered(sizes.gathered) for _ in range(sizes.repeats)]
    one_by_one = middle(lone)
    return [
        Figure("enqueue one by one", one_by_one, "/s", middle(limit), 0.80),
        Figure("gather of enqueues, to one by one", middle(gathered), "/s", one_by_one, 5.0),
    ]


async def _latencies(
    name: str,
    measured_on: Callable[[], AbstractAsyncContextManager[Jobs | TopicRates]],
    raw: RawLimits,
    sizes: Sizes,
    report: Report,
) -> list[Figure]:
    """Raw and Headrace take turns, a quarter of the samples each time."""
    limit: list[float] = []
    ours: list[float] = []
    for _ in range(4):
        report(f"Redis: {name}")
        limit += await raw.wake_latencies(sizes.latency // 4)
        async with measured_on() as measured:
            ours += await measured.wake_latencies(sizes.latency // 4)
    return [
        Figure(
            f"{name}, p{percent}",
            percentile(ours, percent) * 1e6,
            "µs",
            percentile(limit, percent) * 1e6,
            most,
            at_most=True,
        )
        for percent, most in ((50, 2.0), (99, 3.0))
    ]


async def _topics(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    script, limit, many, one, batched, three, ordered = [], [], [], [], [], [], []
    for _ in range(sizes.repeats):
        report("Redis: topics")
        script.append(await raw.add_by_script(sizes.drain))
        limit.append(await raw.drain(sizes.drain, deletes=False))
        async with topics_on(url) as topics:
            published, handled = await topics.one_group(sizes.drain)
            many.append(published)
            one.append(handled)
            batched.append(await topics.batches(sizes.drain))
            three.append(await topics.three_groups(sizes.drain))
            ordered.append(await topics.in_order(sizes.drain))
    raw_drain, single = middle(limit), middle(one)
    return [
        Figure("topic: one group", single, "/s", raw_drain, 0.55),
        Figure("topic: batches of 500", middle(batched), "/s", raw_drain, 0.85),
        Figure("topic: three groups, to one", middle(three), "/s", single, 0.8),
        Figure("topic: ordered, 10,000 keys, to one", middle(ordered), "/s", single, 0.4),
        Figure("topic: publish_many by 500", middle(many), "/s", middle(script), 0.5),
        *await _latencies("topic: publish to handler", lambda: topics_on(url), raw, sizes, report),
    ]


def measured(url: str | None, sizes: Sizes, report: Report) -> list[Figure]:
    """All figures."""
    with _ended_as_by_ctrl_c(), nullcontext(url) if url else private_redis() as server:
        return _run(server, sizes, report)


def document(figures: Sequence[Figure]) -> dict[str, Any]:
    """The figures and the machine they were taken on, as plain values."""
    rows = [{**msgspec.structs.asdict(f), "ratio": f.ratio, "reached": f.reached} for f in figures]
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }
    return {"machine": machine, "figures": rows}


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and a closed terminal leave no server and no worker behind either."""
    others = (signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, signal.default_int_handler) for number in others}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _run(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    async def everything() -> list[Figure]:
        return [*await measure_redis(url, sizes, report), *await measure_sqlite(sizes, report)]

    return run_quickly(everything())
