"""`headrace bench`: how fast is it here?"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from headrace.benchmark.figures import QUICK, Figure, Sizes
from headrace.cli.output import table
from headrace.core.address import check_url


@click.command()
@click.option("--quick", is_flag=True, help="Smaller sizes: done within 45 seconds.")
@click.option("--redis", "url", metavar="URL", help="This server instead of a private one.")
@click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Also write the figures here."
)
def bench(quick: bool, url: str | None, file: Path | None) -> None:
    """Measure throughput, latency and footprint beside the raw limit of redis-py and the server.

    Ratios are taken within one run, so they hold on a noisy machine. The server given with --redis
    is only added to, in namespaces of its own, but its command statistics are reset.
    """
    from headrace.benchmark.server import private_redis

    if url:
        check_url(url)
    with _ended_as_by_ctrl_c(), nullcontext(url) if url else private_redis() as server:
        figures = _measured(server, QUICK if quick else Sizes())
    table(
        ["what", "headrace", "raw", "ratio", "wanted", ""],
        [_row(figure) for figure in figures],
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(_document(figures)), indent=2))


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


def _measured(url: str, sizes: Sizes) -> list[Figure]:
    from headrace.benchmark.measure import measure_redis, measure_sqlite

    async def everything() -> list[Figure]:
        return [*await measure_redis(url, sizes, _tell), *await measure_sqlite(sizes, _tell)]

    try:
        import uvloop
    except ImportError:
        return asyncio.run(everything())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(everything())


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K… {what}", nl=False, err=True)


def _row(figure: Figure) -> Sequence[str]:
    sign = "≤" if figure.at_most else "≥"
    wanted = "" if figure.limit is None else f"{sign} {figure.limit:,g}"
    wanted += " of raw" if wanted and figure.ratio is not None else ""
    verdict = {None: "", True: "ok", False: "missed"}[figure.reached]
    raw = "" if figure.raw is None else f"{figure.raw:,.0f}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return [figure.name, f"{figure.value:,.{1 if figure.value < 100 else 0}f} {figure.unit}",
            raw, ratio, wanted, verdict]  # fmt: skip


def _document(figures: Sequence[Figure]) -> dict[str, Any]:
    rows = [{**msgspec.structs.asdict(f), "ratio": f.ratio, "reached": f.reached} for f in figures]
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }
    return {"machine": machine, "figures": rows}
