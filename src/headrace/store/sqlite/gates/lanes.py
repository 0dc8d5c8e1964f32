"""Lanes: jobs of one key run a few at a time, in their order.

The jobs' own rows say which have a place in a lane and which are blocked, so an idle lane leaves
nothing behind.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.core.job.constraints import decode_constraints
from headrace.store.sqlite.entries import COLUMNS, Entry, lane_gate
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.change import Change

# The jobs with a place in a lane: their number, and the first and the last of their constraints in
# the order of the index. These are mostly the same.
_OF_LANE = "jobs WHERE jobs.queue = named.queue AND jobs.lane = named.lane AND jobs.lane != ''"
_INSIDE = f"""(SELECT count(*) FROM {_OF_LANE}),
        (SELECT constraints FROM {_OF_LANE} ORDER BY constraints LIMIT 1),
        (SELECT constraints FROM {_OF_LANE} ORDER BY constraints DESC LIMIT 1)"""
_CONSTRAINTS = "SELECT DISTINCT constraints FROM jobs WHERE queue = ? AND lane = ? AND lane != ''"
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
    """A lane: how many jobs have a place in it, how many the narrowest of them allows, and whether
    others are blocked."""

    __slots__ = ("has_blocked", "holders", "most")

    def __init__(self, holders: int, most: int, has_blocked: int = 0) -> None:
        self.holders = holders
        self.most = most
        self.has_blocked = bool(has_blocked)

    def lets_in(self, width: int) -> bool:
        """Whether there is a place for a job of this width."""
        return self.holders < min(self.most, width)

    def hold(self, width: int) -> None:
        self.holders += 1
        self.most = min(self.most, width)


def _narrowest(change: Change, lane: str, first: bytes | None, last: bytes | None) -> int:
    """The smallest width in a lane, given its first and last constraints."""
    if first is None:
        return _ANY
    if first == last:
        return _width(first)
    found = change.connection.execute(_CONSTRAINTS, (change.number, lane)).fetchall()
    return min(_width(constraints) for (constraints,) in found)


@lru_cache(maxsize=1024)
def _width(constraints: bytes) -> int:
    return decode_constraints(constraints).width


def enter(change: Change, arrived: Sequence[Entry]) -> None:
    """Give waiting jobs places in their lanes; those that get none are blocked."""
    wanting = [e for e in arrived if e.state == "waiting" and not e.lane and e.constraints.lane]
    if not wanting:
        return
    named = {entry.constraints.lane for entry in wanting}
    rows = [(change.number, lane, lane_gate(lane)) for lane in named]
    rooms = {
        lane: _Room(holders, _narrowest(change, lane, first, last), blocked)
        for lane, holders, first, last, blocked in select_rows(change.connection, _ROOMS, rows)
    }
    for entry in wanting:
        room = rooms[entry.constraints.lane]
        if room.has_blocked or not room.lets_in(entry.constraints.width):
            entry.block_at(lane_gate(entry.constraints.lane), "lane")
            room.has_blocked = True
        else:
            entry.lane = entry.constraints.lane
            room.hold(entry.constraints.width)


def leave(change: Change, left: Iterable[Entry]) -> None:
    """Free the places of jobs whose rows are about to be deleted. The next ones enter at the end of
    the change."""
    for entry in left:
        if entry.lane:
            change.freed_lanes.add(entry.lane)
            entry.lane = ""
        elif entry.reason == "lane" and entry.constraints.lane:
            change.freed_lanes.add(entry.constraints.lane)


def next_blocked(change: Change, lanes: Iterable[str]) -> list[Entry]:
    """The first blocked job of each lane that has room for it, given its place; in their order."""
    rows = [(change.number, lane, lane_gate(lane)) for lane in lanes]
    found = select_rows(change.connection, _NEXT, rows)
    entering: list[Entry] = []
    for holders, first, last, *row in found:
        entry = Entry(*row)
        room = _Room(holders, _narrowest(change, entry.constraints.lane, first, last))
        if room.lets_in(entry.constraints.width):
            entering.append(entry)
    entering.sort(key=_POSITION)
    for entry in entering:
        entry.lane = entry.constraints.lane
    return entering
