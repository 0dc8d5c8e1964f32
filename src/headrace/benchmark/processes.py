"""Processes of the benchmark's own: a Redis, so that nothing else is measured or harmed, and a
worker that has nothing to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from headrace.errors import ConfigError


@contextmanager
def private_redis() -> Iterator[str]:
    """The URL of a server without persistence on a free loopback port."""
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        raise ConfigError(
            "no redis-server or valkey-server is installed: install one, or give --redis URL"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    ends_at = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.05)


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
