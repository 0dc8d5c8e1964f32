"""All measurements, in one run, so that their ratios mean something on a noisy machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from redis.asyncio import Redis

from headrace.benchmark.dashboard import measure_dashboard, measure_metrics
from headrace.benchmark.features import features_on
from headrace.benchmark.figures import Figure, Sizes, middle, percentile
from headrace.benchmark.idle import idle_worker
from headrace.benchmark.jobs import jobs_on
from headrace.benchmark.raw import RawLimits
from headrace.benchmark.topics import topics_on
from headrace.benchmark.tracing import measure_tracing

Report = Callable[[str], None]

_CONCURRENCY = 512


async def measure_redis(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Raw and Headrace take turns; each figure is the median of its repeats."""
    raw = RawLimits(url)
    try:
        return [
            *await _drains(url, raw, sizes, report),
            *await _sends(url, raw, sizes, report),
            *await _latency(url, raw, sizes, report),
            *await _footprint(url, sizes, report),
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
    drains, many, lone = [], [], []
    for _ in range(sizes.repeats):
        report("SQLite: send and drain")
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=".") as folder:
            async with jobs_on(f"sqlite:///{folder}/jobs.db") as jobs:
                many.append(await jobs.send_many(jobs.forgotten, sizes.sqlite_drain))
                drains.append(await jobs.drain(jobs.forgotten, _CONCURRENCY))
                lone.append(await jobs.send_one_by_one(sizes.sqlite_lone))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=".") as folder:
        features = await measure_features(f"sqlite:///{folder}/jobs.db", "SQLite", sizes, report)
        dashboard = await measure_dashboard(f"sqlite:///{folder}/jobs.db", "SQLite", sizes, report)
    return [
        Figure("SQLite: drain", middle(drains), "/s", limit=25_000),
        Figure("SQLite: enqueue_many by 500", middle(many), "/s", limit=80_000),
        Figure("SQLite: enqueue one by one", middle(lone), "/s", limit=4_000),
        *features,
        *dashboard,
    ]


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


async def _events(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    on: list[float] = []
    off: list[float] = []
    for _ in range(sizes.repeats):
        report("Redis: drain with and without events")
        for events, rates in ((False, off), (True, on)):
            async with jobs_on(url, events=events) as jobs:
                await jobs.send_many(jobs.forgotten, sizes.drain)
                rates.append(await jobs.drain(jobs.forgotten, _CONCURRENCY))
    return [Figure("drain with events, to without", middle(on), "/s", middle(off), 0.85)]


async def _drains(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    script, limit, many, drain, kept, narrow = [], [], [], [], [], []
    for _ in range(sizes.repeats):
        report("Redis: send and drain")
        script.append(await raw.add_by_script(sizes.drain))
        limit.append(await raw.drain(sizes.drain))
        async with jobs_on(url) as jobs:
            many.append(await jobs.send_many(jobs.forgotten, sizes.drain))
            drain.append(await jobs.drain(jobs.forgotten, _CONCURRENCY))
            await jobs.send_many(jobs.kept, sizes.drain)
            kept.append(await jobs.drain(jobs.kept, _CONCURRENCY))
            await jobs.send_many(jobs.forgotten, sizes.drain)
            narrow.append(await jobs.drain(jobs.forgotten, 100))
    raw_drain = middle(limit)
    return [
        Figure("drain, no results", middle(drain), "/s", raw_drain, 0.55),
        Figure("drain, results kept", middle(kept), "/s", raw_drain, 0.40),
        Figure("drain, no results, 100 slots", middle(narrow), "/s", raw_drain),
        Figure("enqueue_many by 500", middle(many), "/s", middle(script), 0.30),
    ]


async def _sends(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    limit, lone = [], []
    async with jobs_on(url) as jobs:
        report("Redis: send one by one, and all at once")
        await jobs.send_one_by_one(sizes.lone_round)
        # In short turns: what the machine does besides then hits both alike.
        for _ in range(sizes.lone_rounds):
            limit.append(await raw.add_one_by_one(sizes.lone_round))
            lone.append(await jobs.send_one_by_one(sizes.lone_round))
        gathered = [await jobs.send_gathered(sizes.gathered) for _ in range(sizes.repeats)]
    one_by_one = middle(lone)
    return [
        Figure("enqueue one by one", one_by_one, "/s", middle(limit), 0.80),
        Figure("gather of enqueues, to one by one", middle(gathered), "/s", one_by_one, 5.0),
    ]


async def _latency(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    limit: list[float] = []
    ours: list[float] = []
    for _ in range(4):
        report("Redis: from enqueue to the handler")
        limit += await raw.wake_latencies(sizes.latency // 4)
        async with jobs_on(url) as jobs:
            ours += await jobs.wake_latencies(sizes.latency // 4)
    return _latency_figures("enqueue to handler", ours, limit)


def _latency_figures(name: str, ours: list[float], limit: list[float]) -> list[Figure]:
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
        Figure("topic: ordered, 10,000 keys, to one", middle(ordered), "/s", single, 0.35),
        Figure("topic: publish_many by 500", middle(many), "/s", middle(script), 0.5),
        *await _topic_latency(url, raw, sizes, report),
    ]


async def _topic_latency(url: str, raw: RawLimits, sizes: Sizes, report: Report) -> list[Figure]:
    limit: list[float] = []
    ours: list[float] = []
    for _ in range(4):
        report("Redis: from publish to the handler")
        limit += await raw.wake_latencies(sizes.latency // 4)
        async with topics_on(url) as topics:
            ours += await topics.wake_latencies(sizes.latency // 4)
    return _latency_figures("topic: publish to handler", ours, limit)


async def _footprint(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    report("Redis: memory, and an idle worker")
    redis: Redis = Redis.from_url(url)
    async with jobs_on(url) as jobs:
        before = (await redis.info("memory"))["used_memory"]
        await jobs.send_many(jobs.forgotten, sizes.drain)
        used = (await redis.info("memory"))["used_memory"] - before
    await redis.aclose()
    commands, cpu = await idle_worker(url, sizes.idle_seconds)
    return [
        Figure("memory per waiting job", used / sizes.drain, "bytes", limit=160, at_most=True),
        Figure("idle worker", commands, "commands/s", limit=2.0, at_most=True),
        Figure("idle worker", cpu * 100, "% CPU", limit=1.0, at_most=True),
    ]
