"""All measurements, in one run, so that their ratios mean something on a noisy machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from redis.asyncio import Redis

from headrace.benchmark.figures import Figure, Sizes, middle, percentile
from headrace.benchmark.idle import idle_worker
from headrace.benchmark.jobs import jobs_on
from headrace.benchmark.raw import RawLimits

Tell = Callable[[str], None]

_CONCURRENCY = 512


async def measure_redis(url: str, sizes: Sizes, tell: Tell) -> list[Figure]:
    """Raw and Headrace take turns; each figure is the median of its repeats."""
    raw = RawLimits(url)
    try:
        return [
            *await _drains(url, raw, sizes, tell),
            *await _sends(url, raw, sizes, tell),
            *await _latency(url, raw, sizes, tell),
            *await _footprint(url, sizes, tell),
        ]
    finally:
        await raw.close()


async def measure_sqlite(sizes: Sizes, tell: Tell) -> list[Figure]:
    drains, many, lone = [], [], []
    for _ in range(sizes.repeats):
        tell("SQLite: send and drain")
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=".") as folder:
            async with jobs_on(f"sqlite:///{folder}/jobs.db") as jobs:
                many.append(await jobs.send_many(jobs.forgotten, sizes.sqlite_drain))
                drains.append(await jobs.drain(jobs.forgotten, _CONCURRENCY))
                lone.append(await jobs.send_one_by_one(sizes.sqlite_lone))
    return [
        Figure("SQLite: drain", middle(drains), "/s", limit=25_000),
        Figure("SQLite: enqueue_many by 500", middle(many), "/s", limit=80_000),
        Figure("SQLite: enqueue one by one", middle(lone), "/s", limit=4_000),
    ]


async def _drains(url: str, raw: RawLimits, sizes: Sizes, tell: Tell) -> list[Figure]:
    script, limit, many, drain, kept, narrow = [], [], [], [], [], []
    for _ in range(sizes.repeats):
        tell("Redis: send and drain")
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


async def _sends(url: str, raw: RawLimits, sizes: Sizes, tell: Tell) -> list[Figure]:
    limit, lone = [], []
    async with jobs_on(url) as jobs:
        tell("Redis: send one by one, and all at once")
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


async def _latency(url: str, raw: RawLimits, sizes: Sizes, tell: Tell) -> list[Figure]:
    limit: list[float] = []
    ours: list[float] = []
    for _ in range(4):
        tell("Redis: from enqueue to the handler")
        limit += await raw.wake_latencies(sizes.latency // 4)
        async with jobs_on(url) as jobs:
            ours += await jobs.wake_latencies(sizes.latency // 4)
    return [
        Figure(
            f"enqueue to handler, p{percent}",
            percentile(ours, percent) * 1e6,
            "µs",
            percentile(limit, percent) * 1e6,
            most,
            at_most=True,
        )
        for percent, most in ((50, 2.0), (99, 3.0))
    ]


async def _footprint(url: str, sizes: Sizes, tell: Tell) -> list[Figure]:
    tell("Redis: memory, and an idle worker")
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
