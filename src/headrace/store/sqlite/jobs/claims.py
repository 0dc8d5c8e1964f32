"""Leasing jobs to one worker: waiting ones, and those whose worker is gone."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.clock import Clock, skips_nothing
from headrace.core.job.capacity import RUNNERS, Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import FORMATS, peek_id
from headrace.store.contract import reclaim_every
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import completion, leases, pruning
from headrace.store.sqlite.jobs.claimed_rows import COLUMNS, RestOfBatches, deliveries_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from headrace.store.sqlite.change import Change

_NOT_PAUSED = """NOT EXISTS (
    SELECT 1 FROM pauses
    WHERE pauses.namespace = queues.namespace AND pauses.queue = queues.name AND task = '')"""
# Each runner has its own part of the index: the first of each, and of those the first of all.
_FIRST_OF = """SELECT * FROM (
            SELECT id, priority, position FROM jobs
            WHERE queue = (SELECT id FROM open) AND runner = {runner} AND state = 'waiting'
            ORDER BY priority DESC, position LIMIT ?)"""
_FIRST = f"""
        {" UNION ALL ".join(_FIRST_OF.format(runner=FORMATS[runner]) for runner in RUNNERS)}"""
_TAKE = f"""
    WITH open (id) AS (SELECT id FROM queues WHERE namespace = ? AND name = ? AND {_NOT_PAUSED})
    UPDATE jobs SET state = 'running', owner = ?, ready_ms = time_ms, time_ms = ?, count = count + 1
    WHERE id IN (
        SELECT id FROM ({_FIRST})
        ORDER BY priority DESC, position LIMIT ?)
    RETURNING {COLUMNS}"""
_OF_BATCHES = """id IN (
        SELECT id FROM jobs
        WHERE batch > 0 AND batch IN (
            SELECT batch FROM jobs WHERE id IN (SELECT value FROM json_each(?)))"""
_TAKE_REST = f"""
    UPDATE jobs SET state = 'running', owner = ?, ready_ms = time_ms, time_ms = ?, count = count + 1
    WHERE {_OF_BATCHES} AND state = 'waiting')
    RETURNING {COLUMNS}"""
_ANY_WAITING = f"""
    SELECT 1 FROM queues
    WHERE namespace = ? AND name IN (SELECT value FROM json_each(?)) AND {_NOT_PAUSED}
        AND EXISTS (
            SELECT 1 FROM jobs WHERE queue = queues.id AND state = 'waiting'
                AND runner IN (SELECT value FROM json_each(?)))"""
_TAKE_OVER = f"""
    UPDATE jobs SET owner = ?, time_ms = ?, count = count + 1
    WHERE id IN (
        SELECT id FROM jobs
        WHERE queue = ? AND state = 'running' AND runner = ? AND time_ms <= ?
            AND (count >= ?) = ?
        ORDER BY time_ms, position LIMIT ?)
    RETURNING {COLUMNS}"""
_TAKE_OVER_REST = f"""
    UPDATE jobs SET owner = ?, time_ms = ?, count = count + 1
    WHERE {_OF_BATCHES} AND state = 'running' AND time_ms <= ? AND count < ?)
    RETURNING {COLUMNS}"""
_RUNNING = """
    SELECT count(*) FROM jobs WHERE queue = (SELECT id FROM queues WHERE namespace = ? AND name = ?)
        AND state = 'running'"""
_OWNED = f"""
    SELECT {COLUMNS} FROM jobs
    WHERE queue = (SELECT id FROM queues WHERE namespace = ? AND name = ?)
        AND state = 'running' AND owner = ?"""
_PAUSED = "SELECT 1 FROM pauses WHERE namespace = ? AND queue = ? AND task = ''"
_LEFT_BEHIND = "SELECT 1 FROM jobs WHERE queue = ? AND state = 'running' AND time_ms <= ?"
_EXTEND = "UPDATE jobs SET time_ms = ? WHERE id IN (SELECT value FROM json_each(?))"
_LAST_LOOK = "SELECT looked_ms, hold_until_ms FROM reclaims WHERE namespace = ? AND queue = ?"
_LOOKED = "INSERT OR REPLACE INTO reclaims VALUES (?, ?, ?, ?)"

_PLACES = {FORMATS[runner]: place for place, runner in enumerate(RUNNERS)}


class Claims(msgspec.Struct, frozen=True):
    """How one worker claims jobs."""

    namespace: str
    owner: str
    lease: float
    crash_limit: int
    clock: Clock
    most: Mapping[str, int]
    """How many jobs of a queue may be leased at a time, by all workers together; of queues that are
    not here, any number."""

    def _leased_until(self, now_ms: int) -> int:
        return now_ms + round(self.lease * 1000)

    def take(
        self,
        connection: sqlite3.Connection,
        shares: Sequence[tuple[str, int]],
        limit: int,
        capacity: Capacity,
        draw: Callable[[str, int], None] | None = None,
    ) -> list[LeasedDelivery]:
        """Up to `limit` waiting jobs, of each queue in turn at most its share, of each runner what
        there is capacity for; and all others of their batches. `draw` is called first, with the
        queue and how many are wanted."""
        until = self._leased_until(self.clock.now_ms())
        rooms, rest = _Rooms(capacity), RestOfBatches(_TAKE_REST, (self.owner, until))
        taken, drained = list[LeasedDelivery](), set[str]()
        for queue, share in shares:
            room = min(share, limit)
            if room > 0 and queue in self.most:
                room = min(room, self._places_left(connection, queue))
            while room > 0 and queue not in drained:
                if draw is not None and rooms.left[0] > 0:
                    draw(queue, min(room, rooms.left[0]))
                chosen = (self.namespace, queue, self.owner, until, *rooms.left, room)
                found = connection.execute(_TAKE, chosen).fetchall()
                if len(found) < room:
                    drained.add(queue)
                came = deliveries_of(connection, queue, found, rest)
                counted = rest.counted(found, came)
                rooms.fill(counted)
                limit -= len(counted)
                # Only batches leave room for more.
                room = room - len(counted) if len(counted) < len(found) else 0
                taken += came
        return taken

    def _places_left(self, connection: sqlite3.Connection, queue: str) -> int:
        [(running,)] = connection.execute(_RUNNING, (self.namespace, queue)).fetchall()
        return self.most[queue] - int(running)

    def nothing_waits(
        self, connection: sqlite3.Connection, queues: Sequence[str], capacity: Capacity
    ) -> list[LeasedDelivery] | None:
        """An empty list if `take` would find nothing."""
        runners = [FORMATS[runner] for runner in RUNNERS if capacity.of(runner) > 0]
        named = (self.namespace, json_of(queues), json_of(runners))
        any_waiting = connection.execute(_ANY_WAITING, named).fetchone()
        return None if any_waiting else []

    def held_beyond(
        self,
        connection: sqlite3.Connection,
        queues: Sequence[str],
        known: Collection[LeasedDelivery],
    ) -> list[LeasedDelivery]:
        """Deliveries that the owner holds and that are not in `known`."""
        known_deliveries = {(delivery.receipt, delivery.count) for delivery in known}
        found: list[LeasedDelivery] = []
        for queue in queues:
            owned = (self.namespace, queue, self.owner)
            rows = connection.execute(_OWNED, owned).fetchall()
            unknown = [row for row in rows if (row[0], row[2]) not in known_deliveries]
            found += deliveries_of(connection, queue, unknown)
        return found

    def extend(
        self, connection: sqlite3.Connection, deliveries: Sequence[LeasedDelivery]
    ) -> list[LeasedDelivery]:
        """Renew the leases; returns the deliveries that are lost."""
        holds = leases.find(connection, self.owner, deliveries)
        until = self._leased_until(self.clock.now_ms())
        connection.execute(_EXTEND, (until, json_of(list(holds.counts))))
        return holds.lost

    def not_yet(self, connection: sqlite3.Connection, queue: str) -> list[LeasedDelivery] | None:
        """An empty list if someone has just looked for abandoned jobs."""
        since_ms, _ = self._last_look(connection, queue)
        return [] if since_ms is not None and 0 <= since_ms < self._look_every_ms else None

    def take_over(
        self, change: Change, limit: int, capacity: Capacity, *, last_chance: bool
    ) -> list[LeasedDelivery]:
        """Take over abandoned jobs of the queue, if it is time to look for them."""
        connection, queue, now_ms = change.connection, change.queue, change.now_ms
        if self.not_yet(connection, queue) is not None:
            return []
        since_ms, hold_until_ms = self._last_look(connection, queue)
        gap = since_ms is not None and not 0 <= since_ms <= 3 * self._look_every_ms
        if gap and skips_nothing(self.clock):
            # A test has moved the time: workers that run renew their leases now, and look again.
            looked_ms = now_ms - self._look_every_ms
            connection.execute(_LOOKED, (self.namespace, queue, looked_ms, 0))
            return []
        if gap:
            # The machine slept or the clock was set: leases ran out that no worker could renew.
            hold_until_ms = self._leased_until(now_ms)
        connection.execute(_LOOKED, (self.namespace, queue, now_ms, hold_until_ms))
        if not change.number:
            return []
        pruning.sweep(change)
        if now_ms < hold_until_ms:
            return []
        cancelled = entries.cancelling(connection, change.number, expired_ms=now_ms)
        completion.cancel(change, cancelled)
        if cancelled and queue in self.most:
            change.notify("ready")
        if connection.execute(_PAUSED, (self.namespace, queue)).fetchone():
            return []
        taken = self._take_expired(change, limit, capacity, last_chance)
        for each in taken:
            id, task = peek_id(each.envelope), task_of(each.envelope)
            change.record("stalled", id, task, 0, 0, 0, str(each.count - 1))
        if connection.execute(_LEFT_BEHIND, (change.number, now_ms)).fetchone():
            # So that the next look happens at once.
            looked_ms = now_ms - self._look_every_ms
            connection.execute(_LOOKED, (self.namespace, queue, looked_ms, hold_until_ms))
        return taken

    @property
    def _look_every_ms(self) -> int:
        return round(reclaim_every(self.lease) * 1000)

    def _last_look(self, connection: sqlite3.Connection, queue: str) -> tuple[int | None, int]:
        """Time since the last look, None if there was none; and until when nothing may be taken."""
        row = connection.execute(_LAST_LOOK, (self.namespace, queue)).fetchone()
        if row is None:
            return None, 0
        looked_ms, hold_until_ms = row
        # After the read: else a look by another process in between would be in the future.
        return self.clock.now_ms() - looked_ms, hold_until_ms

    def _take_expired(
        self, change: Change, limit: int, capacity: Capacity, last_chance: bool
    ) -> list[LeasedDelivery]:
        until, dangerous = self._leased_until(change.now_ms), self.crash_limit - 1
        rooms = _Rooms(capacity)
        rest = RestOfBatches(_TAKE_OVER_REST, (self.owner, until), (change.now_ms, dangerous))
        taken: list[LeasedDelivery] = []
        for last, runner in product((True, False), RUNNERS):
            most = min(rooms.left[RUNNERS.index(runner)], limit - len(taken))
            if last:
                most = min(most, 1 if last_chance and not taken else 0)
            if most > 0:
                chosen = (self.owner, until, change.number, FORMATS[runner], change.now_ms)
                found = change.connection.execute(
                    _TAKE_OVER, (*chosen, dangerous, last, most)
                ).fetchall()
                came = deliveries_of(change.connection, change.queue, found, None if last else rest)
                rooms.fill(rest.counted(found, came))
                taken += came
        return taken


class _Rooms:
    """How many jobs may still be taken of each runner, in the order of `RUNNERS`."""

    def __init__(self, capacity: Capacity) -> None:
        self.left = [max(0, capacity.of(runner)) for runner in RUNNERS]

    def fill(self, rows: Sequence[Any]) -> None:
        for row in rows:
            self.left[_PLACES.get(row[6], 0)] -= 1
