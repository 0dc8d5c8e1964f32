"""`headrace bench`: measure the speed on this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from headrace.benchmark.figures import QUICK, Figure, Sizes
from headrace.cli.output import table
from headrace.core.address import check_url


@click.command()
@click.option("--quick", is_flag=True, help="Smaller sizes: done within 45 seconds.")
@click.option("--redis", "url", metavar="URL", help="Use this server instead of a private one.")
@click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Also write the figures here."
)
def bench(quick: bool, url: str | None, file: Path | None) -> None:
    """Measure throughput, latency and footprint next to the raw limits of redis-py and the server.

    Ratios are taken within one run, so they hold on a noisy machine. With --redis,
    jobs are added in namespaces of their own, and the server's command statistics are reset.
    """
    from headrace.benchmark.suite import document, measured

    if url:
        check_url(url)
    figures = measured(url, QUICK if quick else Sizes(), _report)
    table(
        ["what", "headrace", "raw", "ratio", "wanted", ""],
        [_row(figure) for figure in figures],
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(document(figures)), indent=2))


def _report(what: str) -> None:
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
