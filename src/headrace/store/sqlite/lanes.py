"""Lanes: jobs of one key run a few at a time, in the order in which they came.

Who has a place in a lane, and who stands in line for one, is told by the jobs' own rows, so a lane
that is idle leaves nothing behind.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.store.sqlite.entries import COLUMNS, Entry, lane_gate
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.step import Step

_HOLDERS = """
    WITH named (queue, lane, gate) AS (VALUES {rows})
    SELECT named.lane, (
            SELECT count(*) FROM jobs
            WHERE jobs.queue = named.queue AND jobs.lane = named.lane AND jobs.lane != ''),
        EXISTS (
            SELECT 1 FROM jobs
            WHERE jobs.queue = named.queue AND jobs.gate = named.gate AND jobs.gate != '')
    FROM named"""
_NEXT = f"""
    WITH line (queue, lane, gate) AS (VALUES {{rows}})
    SELECT (
            SELECT count(*) FROM jobs
            WHERE jobs.queue = line.queue AND jobs.lane = line.lane AND jobs.lane != ''),
        {COLUMNS}
    FROM line JOIN jobs ON jobs.id = (
        SELECT id FROM jobs WHERE queue = line.queue AND gate = line.gate AND gate != ''
        ORDER BY position LIMIT 1)"""
_POSITION = attrgetter("position")


def _state(step: Step, lanes: Iterable[str]) -> dict[str, tuple[int, bool]]:
    """Of each lane, how many have a place in it, and whether there is a line."""
    rows = [(step.number, lane, lane_gate(lane)) for lane in lanes]
    found = select_rows(step.connection, _HOLDERS, rows)
    return {lane: (holders, bool(line)) for lane, holders, line in found}


def enter(step: Step, arrived: Sequence[Entry]) -> None:
    """Give waiting jobs their place in their lanes; those that get none stand in line."""
    wanting = [e for e in arrived if e.state == "waiting" and not e.lane and e.ties.lane]
    if not wanting:
        return
    lanes = _state(step, {entry.ties.lane for entry in wanting})
    for entry in wanting:
        lane = entry.ties.lane
        holders, line = lanes[lane]
        if line or holders >= entry.ties.width:
            entry.stand_at(lane_gate(lane), "lane")
            lanes[lane] = (holders, True)
        else:
            entry.lane = lane
            lanes[lane] = (holders + 1, False)


def leave(step: Step, left: Iterable[Entry]) -> None:
    """Free the places, or places in line, of jobs whose rows are about to go. Who comes next is
    seen at the end of the step."""
    for entry in left:
        if entry.lane:
            step.freed_lanes.add(entry.lane)
            entry.lane = ""
        elif entry.reason == "lane" and entry.ties.lane:
            step.freed_lanes.add(entry.ties.lane)


def next_in_line(step: Step, lanes: Iterable[str]) -> list[Entry]:
    """The first in the line of each lane that has room for it, given its place; in the order in
    which they came."""
    rows = [(step.number, lane, lane_gate(lane)) for lane in lanes]
    found = select_rows(step.connection, _NEXT, rows)
    first = [(holders, Entry(*row)) for holders, *row in found]
    entering = [entry for holders, entry in first if holders < entry.ties.width]
    entering.sort(key=_POSITION)
    for entry in entering:
        entry.lane = entry.ties.lane
    return entering
