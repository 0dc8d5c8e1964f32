"""Giving jobs to one worker: those that wait, and those whose worker is gone."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.clock import Clock
from headrace.core.delivery import Delivery
from headrace.store.contract import reclaim_every
from headrace.store.sqlite import settling, sweeping
from headrace.store.sqlite.rows import queue_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

_TAKE = """
    UPDATE jobs SET state = 'running', owner = ?, time_ms = ?, count = count + 1
    WHERE id IN (
        SELECT id FROM jobs
        WHERE queue = (SELECT id FROM queues WHERE namespace = ? AND name = ?)
            AND state = 'waiting'
        ORDER BY position LIMIT ?)
    RETURNING id, envelope, past, count, position"""
_ANY_WAITING = """
    SELECT 1 FROM queues
    WHERE namespace = ? AND name IN (SELECT value FROM json_each(?))
        AND EXISTS (SELECT 1 FROM jobs WHERE queue = queues.id AND state = 'waiting')"""
_TAKE_OVER = """
    UPDATE jobs SET owner = ?, time_ms = ?, count = count + 1
    WHERE id IN (
        SELECT id FROM jobs
        WHERE queue = ? AND state = 'running' AND time_ms <= ? AND (count >= ?) = ?
        ORDER BY time_ms, position LIMIT ?)
    RETURNING id, envelope, past, count, position"""
_LEFT_BEHIND = "SELECT 1 FROM jobs WHERE queue = ? AND state = 'running' AND time_ms <= ?"
_EXTEND = "UPDATE jobs SET time_ms = ? WHERE id IN (SELECT value FROM json_each(?))"
_LAST_LOOK = "SELECT looked_ms, hold_until_ms FROM looks WHERE namespace = ? AND queue = ?"
_LOOKED = "INSERT OR REPLACE INTO looks VALUES (?, ?, ?, ?)"

_POSITION = itemgetter(4)


class Claims(msgspec.Struct, frozen=True):
    """What one worker claims jobs with."""

    namespace: str
    owner: str
    lease: float
    crash_limit: int
    clock: Clock

    def _leased_until(self, now_ms: int) -> int:
        return now_ms + round(self.lease * 1000)

    def take(
        self, connection: sqlite3.Connection, queues: Sequence[str], limit: int
    ) -> list[Delivery]:
        """Up to `limit` waiting jobs, of the first queue first, each in its queue's order."""
        until = self._leased_until(self.clock.now_ms())
        taken: list[Delivery] = []
        for queue in queues:
            room = limit - len(taken)
            if room > 0:
                chosen = (self.owner, until, self.namespace, queue, room)
                taken += _deliveries(queue, connection.execute(_TAKE, chosen).fetchall())
        return taken

    def nothing_waits(
        self, connection: sqlite3.Connection, queues: Sequence[str]
    ) -> list[Delivery] | None:
        """An empty list if `take` would find nothing."""
        names = msgspec.json.encode(queues).decode()
        any_waiting = connection.execute(_ANY_WAITING, (self.namespace, names)).fetchone()
        return None if any_waiting else []

    def held_beyond(
        self, connection: sqlite3.Connection, queues: Sequence[str], known: Collection[Delivery]
    ) -> list[Delivery]:
        """What the owner holds and does not know of."""
        known_receipts = {delivery.receipt for delivery in known}
        found: list[Delivery] = []
        for queue in queues:
            owned = (self.namespace, queue, self.owner)
            rows = connection.execute(settling.OWNED, owned).fetchall()
            found += _deliveries(queue, [row for row in rows if row[0] not in known_receipts])
        return found

    def extend(
        self, connection: sqlite3.Connection, deliveries: Sequence[Delivery]
    ) -> list[Delivery]:
        """Begin the leases anew; returns the deliveries that are lost."""
        held, lost = settling.split_held(connection, self.owner, deliveries)
        until = self._leased_until(self.clock.now_ms())
        connection.execute(_EXTEND, (until, msgspec.json.encode(held).decode()))
        return lost

    def not_yet(self, connection: sqlite3.Connection, queue: str) -> list[Delivery] | None:
        """An empty list if it is not time to look for abandoned jobs: someone has just looked."""
        since_ms, _ = self._last_look(connection, queue)
        return [] if since_ms is not None and 0 <= since_ms < self._look_every_ms else None

    def take_over(
        self, connection: sqlite3.Connection, queue: str, limit: int, *, last_chance: bool
    ) -> list[Delivery]:
        """Abandoned jobs of the queue, if it is time to look for them."""
        if self.not_yet(connection, queue) is not None:
            return []
        since_ms, hold_until_ms = self._last_look(connection, queue)
        now_ms = self.clock.now_ms()
        if since_ms is not None and not 0 <= since_ms <= 3 * self._look_every_ms:
            # The machine slept or the clock was set: leases ran out that nobody could renew.
            hold_until_ms = self._leased_until(now_ms)
        connection.execute(_LOOKED, (self.namespace, queue, now_ms, hold_until_ms))
        number = queue_id(connection, self.namespace, queue)
        if number is None:
            return []
        sweeping.sweep(connection, number, now_ms)
        if now_ms < hold_until_ms:
            return []
        taken = self._take_expired(connection, number, queue, limit, now_ms, last_chance)
        if connection.execute(_LEFT_BEHIND, (number, now_ms)).fetchone():
            # For the next to look, at once.
            looked_ms = now_ms - self._look_every_ms
            connection.execute(_LOOKED, (self.namespace, queue, looked_ms, hold_until_ms))
        return taken

    @property
    def _look_every_ms(self) -> int:
        return round(reclaim_every(self.lease) * 1000)

    def _last_look(self, connection: sqlite3.Connection, queue: str) -> tuple[int | None, int]:
        """How long ago someone looked, None for never; and until when nothing may be taken."""
        row = connection.execute(_LAST_LOOK, (self.namespace, queue)).fetchone()
        if row is None:
            return None, 0
        looked_ms, hold_until_ms = row
        # After the row is read: else a look by another process in between seems to lie ahead.
        return self.clock.now_ms() - looked_ms, hold_until_ms

    def _take_expired(
        self,
        connection: sqlite3.Connection,
        number: int,
        queue: str,
        limit: int,
        now_ms: int,
        last_chance: bool,
    ) -> list[Delivery]:
        until = self._leased_until(now_ms)
        dangerous = self.crash_limit - 1
        taken: list[Delivery] = []
        for last, most in ((True, 1 if last_chance else 0), (False, limit)):
            room = min(most, limit - len(taken))
            if room > 0:
                chosen = (self.owner, until, number, now_ms, dangerous, last, room)
                taken += _deliveries(queue, connection.execute(_TAKE_OVER, chosen).fetchall())
        return taken


def _deliveries(queue: str, rows: list[Any]) -> list[Delivery]:
    # RETURNING promises no order.
    rows.sort(key=_POSITION)
    return [Delivery(queue, id, envelope, past, count) for id, envelope, past, count, _ in rows]
