"""What observing costs: a page of the dashboard, its live updates, and metrics of a worker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from redis.asyncio import Redis

import headrace
from headrace import Headrace
from headrace.benchmark.asgi_client import counted, get, listening
from headrace.benchmark.figures import CONCURRENCY, Figure, Report, Sizes, middle
from headrace.benchmark.jobs import fresh_app, jobs_on
from headrace.metrics.totals import Totals

_QUEUES = 100
_ROUNDS = 5
_QUICK_ROUNDS = 2


async def measure_dashboard(url: str, store: str, sizes: Sizes, report: Report) -> list[Figure]:
    """The overview with 100 queues and many jobs; on Redis also how many commands an open page
    sends."""
    async with fresh_app(url, events=True) as app:
        report(f"{store}: a dashboard with {_QUEUES} queues and {sizes.seen:,} jobs")
        await _fill(app, sizes.seen)
        asked = await counted(app)
        site = headrace.dashboard(app, insecure=True)
        await get(site, "/")
        took, calls = [], []
        for _ in range(5):
            asked.calls.clear()
            began = time.perf_counter()
            await get(site, "/")
            took.append((time.perf_counter() - began) * 1000)
            calls.append(asked.calls.total())
        figures = [
            Figure(f"{store}: overview page", middle(took), "ms", limit=100, at_most=True),
            Figure(f"{store}: overview page", max(calls), "store calls", limit=20, at_most=True),
        ]
        if url.startswith("redis"):
            sent = await _live_commands(url, site, sizes.idle_seconds)
            figures.append(Figure("live page", sent, "commands/s", limit=5, at_most=True))
        return figures


async def _fill(app: Headrace, jobs: int) -> None:
    for queue in range(_QUEUES):

        @app.task(name=f"work-{queue}", queue=f"queue-{queue:03}", result_ttl=0)
        async def work(number: int) -> None: ...

        for start in range(0, jobs // _QUEUES, 500):
            count = min(500, jobs // _QUEUES - start)
            await app.enqueue_many(work.call(number) for number in range(count))


async def _live_commands(url: str, site: Any, seconds: float) -> float:
    """Commands per second that one open overview sends; what its scripts call is not sent."""
    redis: Redis = Redis.from_url(url)
    sent = 0
    try:
        async with redis.monitor() as monitor, listening(site, "/live?view=/"):
            ends_at = time.monotonic() + seconds
            while (left := ends_at - time.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left):
                        command: dict[str, Any] = await monitor.next_command()
                except TimeoutError:
                    break
                sent += command["client_type"] != "lua"
    finally:
        await redis.aclose()
    return sent / seconds


async def measure_metrics(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """A drain with metrics against one without, both with events, as by default. Compares CPU time:
    on a busy machine, elapsed time would hide a difference of a few percent."""
    on: list[float] = []
    off: list[float] = []
    for _ in range(_ROUNDS if sizes.repeats > 1 else _QUICK_ROUNDS):
        report("Redis: drain with and without metrics")
        for totals, rates in ((None, off), (Totals(), on)):
            async with jobs_on(url, events=True) as jobs:
                await jobs.send_many(jobs.forgotten, sizes.compared)
                began = time.process_time()
                await jobs.drain(jobs.forgotten, CONCURRENCY, totals=totals)
                rates.append(sizes.compared / (time.process_time() - began))
    # The best of each: disturbances only ever add time.
    return [
        Figure("drain with metrics, to without", max(on), "/CPU s", max(off), 0.97),
    ]
