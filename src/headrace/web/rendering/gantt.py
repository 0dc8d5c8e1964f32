"""When runs began and ended, as bars on one scale of time: attempts of a job, jobs of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core.display import utc_text
from headrace.web.rendering.flow_folding import fold
from headrace.web.rendering.formatting import seconds

if TYPE_CHECKING:
    from headrace.admin import FlowInfo, JobDetail

WIDTH = 1000
_ROWS = 40
_BARS = 200
# Even the shortest run is visible.
_THINNEST = 3.0


@dataclass(frozen=True, slots=True)
class Span:
    """A run: when it began and ended, and the state that it led to."""

    began: datetime
    ended: datetime
    tone: str


@dataclass(frozen=True, slots=True)
class GanttBar:
    x: float
    width: float
    tone: str
    title: str
    began: datetime


@dataclass(frozen=True, slots=True)
class GanttRow:
    label: str
    bars: tuple[GanttBar, ...]


@dataclass(frozen=True, slots=True)
class Gantt:
    """Rows of bars, from `began` on for `length`."""

    began: datetime
    length: str
    rows: tuple[GanttRow, ...]
    more: int
    """Rows that are not shown."""


def gantt_of_attempts(job: JobDetail) -> Gantt | None:
    """A row for each attempt, on a scale that begins when the job was sent; None if there are fewer
    than two."""
    if len(job.attempts) < 2:
        return None
    rows = [
        (
            f"Attempt {each.number}",
            [Span(each.started, each.ended, "dead" if each.error else "done")],
        )
        for each in job.attempts
    ]
    return _gantt(rows[-_ROWS:], len(rows) - _ROWS, job.sent)


def gantt_of_flow(flow: FlowInfo, now: datetime) -> Gantt | None:
    """A row for each job, or for those that stand alike; None if no two runs are known. A run that
    goes on lasts until now."""
    spans = {
        job.id: Span(job.started, job.ended or max(now, job.started), str(job.state))
        for job in flow.jobs
        if job.started is not None
    }
    if len(spans) < 2:
        return None
    rows = []
    for each in fold(flow.jobs):
        known = [spans[id] for id in each.ids if id in spans]
        many = f"{len(each.ids):,} \N{MULTIPLICATION SIGN} " if len(each.ids) > 1 else ""
        if known:
            rows.append((f"{many}{each.job.task or '(unknown)'}", known))
    rows.sort(key=lambda row: min(span.began for span in row[1]))
    return _gantt(rows[:_ROWS], len(rows) - _ROWS)


def _gantt(
    rows: Sequence[tuple[str, Sequence[Span]]], more: int, since: datetime | None = None
) -> Gantt:
    spans = [span for _, row in rows for span in row]
    first = min(span.began for span in spans)
    began = min(since, first) if since is not None else first
    length = max((span.ended - began).total_seconds() for span in spans)
    made = tuple(
        GanttRow(label, tuple(_bar(span, began, length) for span in row[:_BARS]))
        for label, row in rows
    )
    return Gantt(began, seconds(length), made, max(0, more))


def _bar(span: Span, began: datetime, length: float) -> GanttBar:
    scale = WIDTH / max(length, 0.001)
    took = (span.ended - span.began).total_seconds()
    x, width = (span.began - began).total_seconds() * scale, max(_THINNEST, took * scale)
    title = f"{span.tone}, {seconds(max(0.0, took))} from {utc_text(span.began)} on"
    x = round(min(x, WIDTH - _THINNEST), 1)
    return GanttBar(x, round(width, 1), span.tone, title, span.began)
