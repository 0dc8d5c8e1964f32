"""A flow as a drawing: jobs in columns, each to the right of the jobs it waits for."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.web.rendering.flow_folding import FoldedJobs, fold
from headrace.web.rendering.formatting import visible

if TYPE_CHECKING:
    from headrace.admin import FlowInfo, FlowJobInfo

MOST_DRAWN = 200
WIDTH, HEIGHT = 176, 48
_GAP_X, _GAP_Y, _EDGE = 56, 16, 12
_LETTERS = 20
# The order within columns settles after a few passes.
_PASSES = 4


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A job in the drawing, or several that stand alike."""

    job: FlowJobInfo
    folded: FoldedJobs
    label: str
    state: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class FlowDrawing:
    """A drawing: its size, its jobs, and the curves between them as SVG paths."""

    width: int
    height: int
    nodes: tuple[FlowNode, ...]
    edges: tuple[str, ...]
    more: int
    """Jobs of the flow that are not drawn."""


def draw_flow(flow: FlowInfo) -> FlowDrawing:
    """The flow with jobs that stand alike folded, or the first `MOST_DRAWN` boxes of it."""
    whole = fold(flow.jobs)
    folds = {each.job.id: each for each in whole[:MOST_DRAWN]}
    jobs = [each.job for each in folds.values()]
    columns = _ordered(_layers(jobs), jobs)
    tallest = max(map(len, columns), default=0)
    nodes = {
        job.id: _node(folds[job.id], column, row + (tallest - len(layer)) / 2)
        for column, layer in enumerate(columns)
        for row, job in enumerate(layer)
    }
    edges = [
        _curve(nodes[parent], nodes[job.id])
        for job in jobs
        for parent in job.parents
        if parent in nodes
    ]
    return FlowDrawing(
        width=len(columns) * (WIDTH + _GAP_X) - _GAP_X + 2 * _EDGE,
        height=tallest * (HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE,
        nodes=tuple(nodes.values()),
        edges=tuple(edges),
        more=sum(len(each.ids) for each in whole[MOST_DRAWN:]),
    )


def _layers(jobs: Sequence[FlowJobInfo]) -> list[list[FlowJobInfo]]:
    """Jobs by the length of the longest path to them."""
    depths = dict.fromkeys((job.id for job in jobs), 0)
    # Each pass settles one more layer; a cycle, as in corrupt data, would never settle.
    for _ in jobs:
        before = dict(depths)
        for job in jobs:
            behind = [depths[parent] + 1 for parent in job.parents if parent in depths]
            depths[job.id] = min(max(behind, default=0), len(jobs) - 1)
        if depths == before:
            break
    # Then as far right as their children allow, for short lines.
    for job in sorted(jobs, key=lambda job: -depths[job.id]):
        ahead = [depths[child.id] - 1 for child in jobs if job.id in child.parents]
        depths[job.id] = max(depths[job.id], min(ahead, default=0))
    used = sorted(set(depths.values()))
    return [[job for job in jobs if depths[job.id] == depth] for depth in used]


def _ordered(
    layers: list[list[FlowJobInfo]], jobs: Sequence[FlowJobInfo]
) -> list[list[FlowJobInfo]]:
    """Each layer sorted by the mean position of its jobs' parents, then of their children, so that
    few lines cross."""
    parents = {job.id: job.parents for job in jobs}
    children: dict[str, list[str]] = {job.id: [] for job in jobs}
    for job in jobs:
        for parent in job.parents:
            children.get(parent, []).append(job.id)
    for at in range(_PASSES):
        places = {job.id: row for layer in layers for row, job in enumerate(layer)}
        near = children if at % 2 else parents
        for layer in layers:
            middles = {job.id: _middle(near[job.id], places, places[job.id]) for job in layer}
            layer.sort(key=lambda job: middles[job.id])
            places.update({job.id: row for row, job in enumerate(layer)})
    return layers


def _middle(near: Sequence[str], places: dict[str, int], otherwise: int) -> float:
    rows = [places[id] for id in near if id in places]
    return sum(rows) / len(rows) if rows else otherwise


def _node(folded: FoldedJobs, column: int, row: float) -> FlowNode:
    job, many = folded.job, len(folded.ids)
    x = _EDGE + column * (WIDTH + _GAP_X)
    y = _EDGE + round(row * (HEIGHT + _GAP_Y))
    count = f"{many:,} \N{MULTIPLICATION SIGN} " if many > 1 else ""
    label = _fitting(f"{count}{visible(job.task or '(unknown)')}")
    return FlowNode(job, folded, label, _fitting(folded.text), x, y)


def _fitting(text: str) -> str:
    """The text cut to the width of a box; some characters are twice as wide."""
    room, kept = _LETTERS, ""
    for char in text:
        room -= 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if room < 0:
            return f"{kept}…"
        kept += char
    return kept


def _curve(start: FlowNode, end: FlowNode) -> str:
    x1, y1 = start.x + WIDTH, start.y + HEIGHT // 2
    x2, y2 = end.x, end.y + HEIGHT // 2
    bend = max(_GAP_X // 2, abs(x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
