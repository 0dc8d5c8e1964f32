"""Charts as SVG. Their labels are HTML around it, so that they keep their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

from headrace.admin.stats_sum import StatsSum
from headrace.web.rendering.formatting import number, seconds
from headrace.web.stats_cache import Minutes, minute_text

WIDTH, HEIGHT = 600, 120
SPANS = {"15m": (15, 1), "1h": (60, 1), "6h": (360, 5), "24h": (1440, 20)}
"""For each span: minutes in all, and minutes per point."""
SPAN_LABELS = (("15m", "15 min"), ("1h", "1 h"), ("6h", "6 h"), ("24h", "24 h"))

_MINUTES, _HOURS, _DAY = (2, 4, 6, 10, 20, 40), (1, 2, 4, 6, 12, 24), 86_400.0

# The kinds of runs that failed, each with its label and its colour.
_FAILED = {"dead": ("dead", "s2"), "retry": ("retried", "s3")}

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    tone: str
    values: Values


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `svg` is our own markup: numbers, and escaped labels."""

    title: str
    description: str
    series: tuple[Series, ...]
    times: tuple[str, ...]
    moments: tuple[datetime, ...]
    most: str
    half: str
    svg: Markup
    say: Callable[[float | None], str]


def charts_of(minutes: Minutes, step: int) -> list[Chart]:
    """Throughput, failures, run time and wait time, with `step` minutes per point."""
    sums = [StatsSum.of(minutes.sums[at : at + step]) for at in range(0, len(minutes.sums), step)]
    first = minutes.last - len(minutes.sums) + 1
    points = tuple(first + at * step for at in range(len(sums)))

    def rates(*kinds: str) -> Values:
        return [sum(each.counts[kind] for kind in kinds) / step for each in sums]

    def chart(title: str, bars: bool, *series: Series) -> Chart:
        return _chart(title, points, series, bars=bars)

    run50, run95 = [each.ran(50) for each in sums], [each.ran(95) for each in sums]
    wait50, wait95 = [each.waited(50) for each in sums], [each.waited(95) for each in sums]
    return [
        chart("Done per minute", True, Series("done", "s1", rates("done"))),
        chart(
            "Failed per minute",
            True,
            *(Series(name, tone, rates(kind)) for kind, (name, tone) in _FAILED.items()),
        ),
        chart("Run time", False, Series("median", "s1", run50), Series("95 %", "s3", run95)),
        chart("Wait time", False, Series("median", "s1", wait50), Series("95 %", "s3", wait95)),
    ]


def _chart(title: str, points: tuple[int, ...], series: tuple[Series, ...], *, bars: bool) -> Chart:
    """A chart of series with a value for each point, which are minutes from 1970 on."""
    say = number if bars else seconds
    times = tuple(map(minute_text, points))
    moments = tuple(datetime.fromtimestamp(60 * point, UTC) for point in points)
    if bars:
        totals = [
            sum(v or 0 for v in values) for values in zip(*(s.values for s in series), strict=True)
        ]
    else:
        totals = [value or 0 for each in series for value in each.values]
    most = _rounded(max(totals, default=0), bars=bars)
    shapes = _bars(series, most) if bars else _lines(series, most)
    hits = _hits(series, moments, say)
    description = _described(series, say)
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(f"{title}: {description}")}">'
        f"{_grid()}{shapes}{hits}</svg>"
    )
    figures = (say(most), say(most / 2), Markup(svg), say)
    return Chart(title, description, series, times, moments, *figures)


def figures_of(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """What charts of one time show, for each of their points."""
    return [
        {"from": moment} | {f"{c.title}, {s.label}": s.values[at] for c in charts for s in c.series}
        for at, moment in enumerate(charts[0].moments)
    ]


def _rounded(value: float, *, bars: bool) -> float:
    """The next larger 1, 2, 4, 6 or 8 times a power of ten; for times above a minute, the next
    whole number of minutes, hours or days."""
    value, power = max(value, 1.0 if bars else 0.001), 1e-6
    while power * 10 <= value:
        power *= 10
    steps = [step * power for step in (1, 2, 4, 6, 8, 10)]
    if not bars and value > 60:
        days = int(value // _DAY) + 1
        steps = [60.0 * m for m in _MINUTES] + [3600.0 * h for h in _HOURS] + [days * _DAY]
    return next(step for step in steps if step >= value * 0.9999)


def _grid() -> str:
    lines = (("grid", 0.5), ("grid", HEIGHT / 2), ("axis", HEIGHT - 0.5))
    return "".join(
        f'<line class="{kind}" x1="0" x2="{WIDTH}" y1="{y:g}" y2="{y:g}"/>' for kind, y in lines
    )


def _bars(series: Sequence[Series], most: float) -> str:
    """Stacked bars."""
    width = WIDTH / max(1, len(series[0].values))
    tops, found = [0.0] * len(series[0].values), []
    for each in series:
        for at, value in enumerate(each.values):
            if not value:
                continue
            # Even the smallest value is visible.
            height = max(1.5, value / most * (HEIGHT - 2))
            y = HEIGHT - 1 - tops[at] - height
            tops[at] += height
            found.append(
                f'<rect class="bar {each.tone}" x="{at * width + width * 0.1:.1f}" y="{y:.1f}" '
                f'width="{width * 0.8:.1f}" height="{height:.1f}"/>'
            )
    return "".join(found)


def _lines(series: Sequence[Series], most: float) -> str:
    """Lines with gaps where nothing was measured; a single point is a short stroke."""
    found = []
    for each in reversed(series):
        width = WIDTH / max(1, len(each.values))
        points = [
            None if value is None else ((at + 0.5) * width, _height(value, most))
            for at, value in enumerate(each.values)
        ]
        for there, run in groupby(points, key=lambda point: point is not None):
            if there:
                found.append(_line(each.tone, [point for point in run if point], width))
    return "".join(found)


def _line(tone: str, points: list[tuple[float, float]], width: float) -> str:
    if len(points) == 1:
        ((x, y),) = points
        points = [(x - width * 0.4, y), (x + width * 0.4, y)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="line {tone}" d="M{path}"/>'


def _height(value: float, most: float) -> float:
    return HEIGHT - 2 - value / most * (HEIGHT - 4)


def _hits(
    series: Sequence[Series], moments: Sequence[datetime], say: Callable[[float | None], str]
) -> str:
    """Tooltips of the points that have a value; a script adds the time in the local zone."""
    width, found = WIDTH / max(1, len(moments)), []
    for at, moment in enumerate(moments):
        if not any(each.values[at] for each in series):
            continue
        utc = f"{moment:%H:%M} UTC"
        said = ", ".join(f"{each.label} {say(each.values[at])}" for each in series)
        found.append(
            f'<rect class="hit" x="{at * width:.1f}" y="0" width="{width:.1f}" height="{HEIGHT}">'
            f'<title data-time="{moment.isoformat()}" data-utc="{utc}">'
            f"{escape(f'{utc}: {said}')}</title></rect>"
        )
    return "".join(found)


def _described(series: Sequence[Series], say: Callable[[float | None], str]) -> str:
    """A description for screen readers."""
    parts = []
    for each in series:
        known = [value for value in each.values if value is not None]
        latest = say(known[-1]) if known else "nothing"
        parts.append(f"{each.label} latest {latest}, most {say(max(known, default=None))}")
    return "; ".join(parts)
