"""Lanes: jobs of one key, or of one task, run a few at a time, in their order.

The jobs' own rows say which have a place in a lane and which are blocked, so an idle lane leaves
nothing behind.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.core.job.constraints import decode_constraints
from headrace.store.sqlite.entries import COLUMNS, Entry, json_of, lane_gate
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.change import Change

# The jobs with a place in a lane: their number, and the first and the last of their constraints in
# the order of the index. These are mostly the same.
_OF_LANE = "jobs WHERE jobs.queue = named.queue AND jobs.lane = named.lane AND jobs.lane != ''"
_INSIDE = f"""(SELECT count(*) FROM {_OF_LANE}),
        (SELECT constraints FROM {_OF_LANE} ORDER BY constraints LIMIT 1),
        (SELECT constraints FROM {_OF_LANE} ORDER BY constraints DESC LIMIT 1),
        (SELECT count(*) FROM jobs WHERE jobs.queue = named.queue
            AND jobs.task_lane = named.lane AND jobs.task_lane != '')"""
_CONSTRAINTS = "SELECT DISTINCT constraints FROM jobs WHERE queue = ? AND lane = ? AND lane != ''"
_TASK_CONSTRAINTS = """
    SELECT DISTINCT constraints FROM jobs WHERE queue = ? AND task_lane = ? AND task_lane != ''"""
_ROOMS = f"""
    WITH named (queue, lane, gate) AS (VALUES {{rows}})
    SELECT named.lane, {_INSIDE}, EXISTS (
            SELECT 1 FROM jobs
            WHERE jobs.queue = named.queue AND jobs.gate = named.gate AND jobs.gate != '')
    FROM named"""
_NEXT = f"""
    WITH named (queue, lane, gate) AS (VALUES {{rows}})
    SELECT named.lane, {_INSIDE}, {COLUMNS}
    FROM named JOIN jobs ON jobs.id = (
        SELECT id FROM jobs WHERE queue = named.queue AND gate = named.gate AND gate != ''
        ORDER BY position LIMIT 1)"""
_BLOCKED = """
    WITH named (queue, lane, gate) AS (VALUES {rows})
    SELECT named.lane, (SELECT count(*) FROM jobs
        WHERE jobs.queue = named.queue AND jobs.gate = named.gate AND jobs.gate != '')
    FROM named"""
_LEAVE_TASK = "UPDATE jobs SET task_lane = '' WHERE id IN (SELECT value FROM json_each(?))"
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

    def is_taken(self, width: int) -> bool:
        """Whether a job of this width is blocked; else it has a place from now on."""
        if self.has_blocked or not self.lets_in(width):
            self.has_blocked = True
            return True
        self.holders += 1
        self.most = min(self.most, width)
        return False


def _room(
    change: Change, lane: str, holders: int, first: bytes | None, last: bytes | None, by_task: int,
    has_blocked: int = 0,
) -> _Room:  # fmt: skip
    """What is known of a lane: the jobs that have it as their own lane, the first and last of their
    constraints, and the jobs that have it as the lane of their task."""
    most = _ANY
    if first is not None and first == last:
        most = _width(first)
    elif first is not None:
        found = change.connection.execute(_CONSTRAINTS, (change.number, lane)).fetchall()
        most = min(_width(constraints) for (constraints,) in found)
    if by_task:
        found = change.connection.execute(_TASK_CONSTRAINTS, (change.number, lane)).fetchall()
        most = min(most, *(_task_width(constraints) for (constraints,) in found))
    return _Room(holders + by_task, most, has_blocked)


@lru_cache(maxsize=1024)
def _width(constraints: bytes) -> int:
    return decode_constraints(constraints).width


@lru_cache(maxsize=1024)
def _task_width(constraints: bytes) -> int:
    return decode_constraints(constraints).task_width


class PendingOfKeys:
    """How many jobs of some keys are blocked behind others, while new ones are added. At most
    `most` of a key may be."""

    def __init__(self, change: Change, entering: Sequence[Parcel], most: int) -> None:
        names = {parcel.constraints.lane for parcel in entering}
        self._entering = {parcel.job_id for parcel in entering}
        self._most = most
        self._rooms = _rooms(change, names) if names else {}
        rows = [(change.number, lane, lane_gate(lane)) for lane in names]
        self._blocked = dict(select_rows(change.connection, _BLOCKED, rows)) if rows else {}

    def is_full(self, parcel: Parcel) -> bool:
        """Whether this job would be one too many."""
        if parcel.job_id not in self._entering:
            return False
        return bool(self._blocked[parcel.constraints.lane] >= self._most)

    def add(self, parcel: Parcel) -> None:
        """Note that a job is added."""
        lane, width = parcel.constraints.lane, parcel.constraints.width
        if parcel.job_id in self._entering and self._rooms[lane].is_taken(width):
            self._blocked[lane] += 1


def enter(change: Change, arrived: Sequence[Entry]) -> dict[str, _Room]:
    """Give waiting jobs places in their lanes; those that get none are blocked. Returns the lanes
    as they are now."""
    wanting = [e for e in arrived if e.state == "waiting" and not e.lane and e.constraints.lane]
    if not wanting:
        return {}
    rooms = _rooms(change, {entry.constraints.lane for entry in wanting})
    for entry in wanting:
        lane, width = entry.constraints.lane, entry.constraints.width
        if rooms[lane].is_taken(width):
            entry.block_at(lane_gate(lane), "lane")
        else:
            entry.lane = lane
    return rooms


def enter_task(change: Change, arrived: Sequence[Entry], known: dict[str, _Room]) -> None:
    """The same for the lanes of their tasks; lanes that `enter` has looked at are `known`."""
    wanting = [
        e for e in arrived if e.state == "waiting" and not e.task_lane and e.constraints.task_lane
    ]
    named = {entry.constraints.task_lane for entry in wanting}
    rooms = known | _rooms(change, named - known.keys())
    for entry in wanting:
        lane, width = entry.constraints.task_lane, entry.constraints.task_width
        if rooms[lane].is_taken(width):
            entry.block_at(lane_gate(lane), "task_lane")
        else:
            entry.task_lane = lane


def _rooms(change: Change, lanes: Iterable[str]) -> dict[str, _Room]:
    rows = [(change.number, lane, lane_gate(lane)) for lane in lanes]
    found = select_rows(change.connection, _ROOMS, rows)
    return {lane: _room(change, lane, *inside) for lane, *inside in found}


def leave(change: Change, left: Iterable[Entry]) -> None:
    """Free the places of jobs whose rows are about to be written or deleted. The next ones enter at
    the end of the change."""
    for entry in left:
        if entry.lane:
            change.freed_lanes.add(entry.lane)
            entry.lane = ""
        elif entry.reason == "lane" and entry.constraints.lane:
            change.freed_lanes.add(entry.constraints.lane)
        if entry.task_lane:
            change.freed_lanes.add(entry.task_lane)
            entry.task_lane = ""
        elif entry.reason == "task_lane" and entry.constraints.task_lane:
            change.freed_lanes.add(entry.constraints.task_lane)


def leave_task(change: Change, left: Iterable[Entry]) -> None:
    """Free the places of jobs in the lanes of their tasks, which they may enter again in the same
    change."""
    if inside := [entry for entry in left if entry.task_lane]:
        change.freed_lanes.update(entry.task_lane for entry in inside)
        change.connection.execute(_LEAVE_TASK, (json_of([entry.id for entry in inside]),))
        for entry in inside:
            entry.task_lane = ""


def next_blocked(change: Change, lanes: Iterable[str]) -> list[Entry]:
    """The first blocked job of each lane that has room for it, given its place; in their order."""
    rows = [(change.number, lane, lane_gate(lane)) for lane in lanes]
    found = select_rows(change.connection, _NEXT, rows)
    entering: list[Entry] = []
    for lane, holders, first, last, by_task, *row in found:
        entry = Entry(*row)
        is_own, room = (
            entry.constraints.lane == lane,
            _room(change, lane, holders, first, last, by_task),
        )
        width = entry.constraints.width if is_own else entry.constraints.task_width
        if room.lets_in(width):
            entering.append(entry)
            if is_own:
                entry.lane = lane
            else:
                entry.task_lane = lane
    entering.sort(key=_POSITION)
    return entering
