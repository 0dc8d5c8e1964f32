"""What Headrace takes when nothing happens: memory of the server, an idle worker, and the time
until it is there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid

from redis.asyncio import Redis

from headrace import Headrace
from headrace.benchmark import tasks
from headrace.benchmark.figures import Figure, Report, Sizes, middle
from headrace.benchmark.jobs import jobs_on
from headrace.benchmark.processes import idle_worker

_IMPORT = (
    "import time; began = time.perf_counter(); import headrace; print(time.perf_counter() - began)"
)
_STARTS = 5


async def measure_footprint(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    report("Redis: memory, and an idle worker")
    memory = [await _memory(url, sizes, *chosen) for chosen in _MEMORY]
    commands, cpu = await idle_worker(url, sizes.idle_seconds)
    return [
        *memory,
        Figure("idle worker", commands, "commands/s", limit=2.0, at_most=True),
        Figure("idle worker", cpu * 100, "% CPU", limit=1.0, at_most=True),
    ]


# The name, whether sent by 500, whether events are on, and the most bytes per job.
_MEMORY = (
    ("memory per waiting job", True, False, 100),
    ("memory per waiting job, events on", True, True, 150),
    ("memory per job sent alone", False, False, 100),
    ("memory per job sent alone, events on", False, True, 150),
)


async def _memory(
    url: str, sizes: Sizes, name: str, together: bool, events: bool, most: int
) -> Figure:
    """Bytes that the server takes for each job that waits."""
    redis: Redis = Redis.from_url(url)
    count = sizes.drain if together else sizes.alone
    try:
        async with jobs_on(url, events=events) as jobs:
            # What a namespace takes with the first job is not counted.
            await jobs.send_one_by_one(1)
            before = (await redis.info("memory"))["used_memory"]
            if together:
                await jobs.send_many(jobs.forgotten, count)
            else:
                await jobs.send_one_by_one(count)
            used = (await redis.info("memory"))["used_memory"] - before
    finally:
        await redis.aclose()
    return Figure(name, used / count, "bytes", limit=most, at_most=True)


async def measure_starts(url: str, report: Report) -> list[Figure]:
    """From the command to the end of a job that waited for it; and the import alone."""
    report("Redis: start of a worker")
    started = [await _first_job(url) for _ in range(_STARTS)]
    imported = [await _imported() for _ in range(_STARTS)]
    return [
        Figure(
            "start of a worker to its first job", middle(started), "s", limit=0.35, at_most=True
        ),
        Figure("import headrace", middle(imported), "s", limit=0.1, at_most=True),
    ]


async def _first_job(url: str) -> float:
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    async with Headrace(url, namespace=namespace) as app:
        job = await app.task(name=tasks.say_hello.name)(tasks.say_hello.function).enqueue()
        began = time.perf_counter()
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace", "worker", "headrace.benchmark.tasks:app",
            env={**os.environ, "HEADRACE_URL": url, "HEADRACE_NAMESPACE": namespace},
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await job.result(timeout=60)
            return time.perf_counter() - began
        finally:
            worker.terminate()
            await worker.wait()


async def _imported() -> float:
    python = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _IMPORT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await python.communicate()
    return float(printed)
