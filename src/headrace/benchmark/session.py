"""One benchmark from beginning to end: with a server of its own, unless one is given."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from headrace.benchmark.figures import Figure, Sizes
from headrace.benchmark.server import private_redis
from headrace.benchmark.suite import Report, measure_redis, measure_sqlite


def measured(url: str | None, sizes: Sizes, report: Report) -> list[Figure]:
    """All figures; `report` is called with what is measured next."""
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

    try:
        import uvloop
    except ImportError:
        return asyncio.run(everything())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(everything())
