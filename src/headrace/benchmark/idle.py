"""What a worker costs while there is nothing to do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

# What a worker sends by itself; the rest of the statistics is what its scripts call.
_SENT = ("evalsha", "eval", "xreadgroup", "subscribe", "client|id", "client|unblock")


async def idle_worker(url: str, seconds: float) -> tuple[float, float]:
    """Commands per second and share of one CPU, of a worker process of its own."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace", "worker", "headrace.benchmark.tasks:app",
        env={**os.environ, "HEADRACE_URL": url, "HEADRACE_NAMESPACE": "bench-idle"},
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    redis: Redis = Redis.from_url(url)
    try:
        await asyncio.sleep(2.0)
        await redis.config_resetstat()
        cpu = _cpu_seconds(worker.pid)
        await asyncio.sleep(seconds)
        spent = _cpu_seconds(worker.pid) - cpu
        stats: dict[str, Any] = await redis.info("commandstats")
    finally:
        worker.terminate()
        await worker.wait()
        await redis.aclose()
    sent = sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in _SENT)
    return sent / seconds, spent / seconds


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
