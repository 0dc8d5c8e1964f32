"""`headrace bench`: measure the speed on this machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
import msgspec

from headrace.benchmark.figures import QUICK, Figure, Sizes
from headrace.cli.output import table
from headrace.core.address import as_redis, check_url
from headrace.store.url import check_store_url


@click.command()
@click.option("--quick", is_flag=True, help="Smaller sizes: done in about a minute.")
@click.option("--peers", is_flag=True, help="Compare with dramatiq and Huey instead.")
@click.option("--redis", "url", metavar="URL", help="Use this server instead of a private one.")
@click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Also write the figures here."
)
def bench(quick: bool, peers: bool, url: str | None, file: Path | None) -> None:
    """Measure throughput, latency and footprint next to the raw limits of redis-py and the server.

    Ratios are taken within one run, so they hold on a noisy machine. With --redis,
    jobs are added in namespaces of their own, and the server's command statistics are reset.

    With --peers, other queues drain the same functions on the same server. pip installs them,
    the first time, into environments of their own in the user's cache folder.
    """
    check_store_url(url or "redis://localhost")
    from headrace.benchmark.peers.comparison import compare
    from headrace.benchmark.suite import document, measured

    if url:
        check_url(url)
        url = as_redis(url)
    sizes = QUICK if quick else Sizes()
    with nullcontext() if url else _no_warnings_of_the_store():
        figures = (compare if peers else measured)(url, sizes, _report)
    other = "peer" if peers else "raw"
    table(
        ["what", "headrace", other, "ratio", "wanted", ""],
        [_row(figure, other) for figure in figures],
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(document(figures)), indent=2))


@contextmanager
def _no_warnings_of_the_store() -> Iterator[None]:
    """A private server is to keep nothing."""
    log = logging.getLogger("headrace.store")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _report(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K… {what}", nl=False, err=True)


def _row(figure: Figure, other: str) -> Sequence[str]:
    sign = "≤" if figure.at_most else "≥"
    wanted = "" if figure.limit is None else f"{sign} {figure.limit:,g}"
    wanted += f" of {other}" if wanted and figure.ratio is not None else ""
    wanted += "" if figure.enough is None else f" or {figure.enough:,g} {figure.unit}"
    verdict = {None: "", True: "ok", False: "missed"}[figure.reached]
    raw = "" if figure.raw is None else f"{figure.raw:,.0f}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    digits = 2 if figure.value < 1 else 1 if figure.value < 100 else 0
    return [figure.name, f"{figure.value:,.{digits}f} {figure.unit}", raw, ratio, wanted, verdict]
