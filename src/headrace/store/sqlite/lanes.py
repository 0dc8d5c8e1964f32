"""Lanes: jobs of one key run a few at a time, in the order in which they came.

Who has a place in a lane, and who stands in line for one, is told by the jobs' own rows, so a lane
that is idle leaves nothing behind.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.core.ties import decode_ties
from headrace.store.sqlite.entries import COLUMNS, Entry, lane_gate
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.step import Step

# Those who have a place in a lane: how many there are, and their ties, which are mostly the same.
_INSIDE = """(
            SELECT count(*) FROM jobs
            WHERE jobs.queue = named.queue AND jobs.lane = named.lane AND jobs.lane != ''),
        (
            SELECT group_concat(DISTINCT hex(jobs.ties)) FROM jobs
            WHERE jobs.queue = named.queue AND jobs.lane = named.lane AND jobs.lane != '')"""
_ROOMS = f"""
    WITH named (queue, lane, gate) AS (VALUES {{rows}})
    SELECT named.lane, {_INSIDE}, EXISTS (
            SELECT 1 FROM jobs
            WHERE jobs.queue = named.queue AND jobs.gate = named.gate AND jobs.gate != '')
    FROM named"""
_NEXT = f"""
    WITH named (queue, lane, gate) AS (VALUES {{rows}})
    SELECT {_INSIDE}, {COLUMNS}
    FROM named JOIN jobs ON jobs.id = (
        SELECT id FROM jobs WHERE queue = named.queue AND gate = named.gate AND gate != ''
        ORDER BY position LIMIT 1)"""
_POSITION = attrgetter("position")
_ANY = sys.maxsize


class _Room:
    """A lane: how many have a place in it, how many the narrowest of them allows, and whether there
    is a line."""

    __slots__ = ("holders", "line", "most")

    def __init__(self, holders: int, ties: str | None, line: int = 0) -> None:
        self.holders = holders
        self.most = min(map(_width, ties.split(",")), default=_ANY) if ties else _ANY
        self.line = bool(line)

    def lets_in(self, width: int) -> bool:
        """Whether there are fewer than a job of this width allows, and than any of them does."""
        return self.holders < min(self.most, width)

    def hold(self, width: int) -> None:
        self.holders += 1
        self.most = min(self.most, width)


@lru_cache(maxsize=1024)
def _width(ties: str) -> int:
    return decode_ties(bytes.fromhex(ties)).width


def enter(step: Step, arrived: Sequence[Entry]) -> None:
    """Give waiting jobs their place in their lanes; those that get none stand in line."""
    wanting = [e for e in arrived if e.state == "waiting" and not e.lane and e.ties.lane]
    if not wanting:
        return
    named = {entry.ties.lane for entry in wanting}
    rows = [(step.number, lane, lane_gate(lane)) for lane in named]
    rooms = {lane: _Room(*room) for lane, *room in select_rows(step.connection, _ROOMS, rows)}
    for entry in wanting:
        room = rooms[entry.ties.lane]
        if room.line or not room.lets_in(entry.ties.width):
            entry.stand_at(lane_gate(entry.ties.lane), "lane")
            room.line = True
        else:
            entry.lane = entry.ties.lane
            room.hold(entry.ties.width)


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
    first = [(_Room(holders, ties), Entry(*row)) for holders, ties, *row in found]
    entering = [entry for room, entry in first if room.lets_in(entry.ties.width)]
    entering.sort(key=_POSITION)
    for entry in entering:
        entry.lane = entry.ties.lane
    return entering
