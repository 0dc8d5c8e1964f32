"""Sends the rows of an outbox."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.core import bounds as limits
from headrace.core.clock import Duration
from headrace.core.job.retry import Retry
from headrace.errors import ConfigError, HeadraceError
from headrace.outbox.row_codec import decode_parcel
from headrace.outbox.row_sender import RowSender
from headrace.outbox.rows import OutboxRow, PendingRows, error_text
from headrace.outbox.sql.open_database import open_database
from headrace.outbox.sql.relay_database import CommitListener
from headrace.worker.service import Service

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.outbox")

# The store refuses a row for good, but a person may still correct the cause.
RETRY = Retry(12, base=1.0, cap=300.0)
_SHORTEST_POLL = 0.05
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Relay:
    """Sends rows, those of one destination in the order in which they were written, and removes
    them. Any number of relays may run: each locks its rows, and if it dies, the others take them
    over when its lease is over.

    `await relay.run()` ends after `stop()`; `async with relay:` runs it beside other code; and
    `await relay.step()` sends the rows that are there now.
    """

    def __init__(
        self,
        app: Headrace,
        table: str,
        database: object,
        *,
        notify: bool,
        lease: Duration,
        poll: Duration,
        retry: Retry,
    ) -> None:
        self._lease = limits.check_seconds("relay(lease=)", lease, least=0.05)
        self._poll = limits.check_seconds("relay(poll=)", poll, least=_SHORTEST_POLL)
        if not isinstance(retry, Retry):
            raise ConfigError(f"relay(retry=) must be a Retry(...), not {retry!r}")
        self._retry = retry
        self._app = app
        self._table = table
        self._database = open_database(database)
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._pending = PendingRows(table, name, int(self._lease * 1000))
        self._sender = RowSender(app)
        self._backoff = _Backoff()
        self._rounds = _RelayService(self)
        self._commits: CommitListener | None = None
        self._listens = notify
        self._pause = 0.0
        self._exits = AsyncExitStack()
        self._entered = False
        self._running: asyncio.Task[None] | None = None

    async def step(self) -> int:
        """Send the next rows, up to 500 of them; how many were sent. Raises `StoreUnavailable` if
        the database cannot be used."""
        # First: while the store is away, no rows need to be locked.
        await self._sender.open()
        held = self._backoff.held()
        if not await self._database.run(lambda connection: self._pending.waiting(connection, held)):
            return 0
        ends_at = time.monotonic() + self._lease / 2
        rows = await self._database.run(lambda connection: self._pending.take(connection, held))
        by_destination: dict[str, list[OutboxRow]] = {}
        for row in rows:
            by_destination.setdefault(row.destination, []).append(row)
        sent = 0
        for destination, batch in by_destination.items():
            # Rows that are left when the lease is about to end are for the next step.
            if time.monotonic() < ends_at:
                sent += await self._send(destination, batch)
        if sent < len(rows):
            await self._database.run(self._pending.release)
        return sent

    async def run(self) -> None:
        """Send rows until `stop`, through failures of the store and of the database."""
        async with self._exits:
            self._exits.push_async_callback(self.close)
            await self._rounds.run()

    def stop(self) -> None:
        """Have `run` end after the current step."""
        self._rounds.stop()

    async def close(self) -> None:
        """Close the connections; only needed after calls of `step`."""
        if self._commits is not None:
            self._commits.close()
        await self._database.close()

    async def __aenter__(self) -> Relay:
        self._running = asyncio.create_task(self.run(), name="headrace-outbox-relay")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._running is not None:
            await self._running

    async def _round(self) -> float:
        """A step, and the pause after it, which grows while there is nothing to do."""
        if not self._entered:
            # Inside of the service, which retries while the store is away.
            await self._exits.enter_async_context(self._app)
            self._entered = True
        if await self.step():
            self._pause = 0.0
            return 0.0
        if self._listens and (self._commits is None or self._commits.closed):
            self._commits = await CommitListener.on(self._database, self._table, self._rounds.wake)
            self._listens = self._commits is not None
        self._pause = min(max(self._pause * 2, _SHORTEST_POLL), self._poll)
        return self._pause

    async def _send(self, destination: str, rows: Sequence[OutboxRow]) -> int:
        """Send rows of one destination, and remove those that were taken."""
        try:
            stored = [decode_parcel(row.parcel) for row in rows]
            parcels = [one.parcel(row.waited_ms) for one, row in zip(stored, rows, strict=True)]
            taken, full = await self._sender.send(destination, parcels)
        except Exception as error:
            return await self._refused(destination, rows, error)
        # At once: if the relay dies before, they are sent a second time.
        if taken:
            await self._database.run(lambda c: self._pending.sent(c, rows[:taken]))
        if full is not None:
            self._backoff.hold(destination, full)
        else:
            self._backoff.let_go(destination)
        return taken

    async def _refused(self, destination: str, rows: Sequence[OutboxRow], error: Exception) -> int:
        """Wait if the error is retryable; else find the refused rows, and count their attempts."""
        if isinstance(error, HeadraceError) and error.retryable:
            self._backoff.hold(destination, error)
            return 0
        if len(rows) > 1:
            return await self._one_by_one(destination, rows)
        (row,) = rows
        attempt = row.attempts + 1
        again = attempt < self._retry.max_attempts and self._retry.retries(error)
        delay = self._retry.delay(attempt) if again else None
        await self._database.run(lambda c: self._pending.refused(c, row, error, delay))
        then = f"tried again in {delay:.0f} s" if delay is not None else "given up"
        log.warning(
            "row %d of the outbox, for %r, was refused (attempt %d) and is %s: %s",
            row.position, destination, attempt, then, error_text(error),
        extra={"queue": destination, "row": row.position, "attempt": attempt},)  # fmt: skip
        return 0

    async def _one_by_one(self, destination: str, rows: Sequence[OutboxRow]) -> int:
        sent = 0
        for row in rows:
            sent += await self._send(destination, [row])
            if destination in self._backoff.held():
                break
        return sent


class _RelayService(Service):
    name = "outbox relay"

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    async def step(self) -> float:
        return await self._relay._round()


class _Backoff:
    """Destinations that cannot take more now, each with a pause. All rows of a destination wait,
    not only those that were tried: they are sent in order."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._pause: dict[str, float] = {}

    def held(self) -> list[str]:
        """Destinations to which nothing is sent now."""
        now = time.monotonic()
        return [name for name, until in self._until.items() if until > now]

    def hold(self, destination: str, error: HeadraceError) -> None:
        pause = self._pause.get(destination, 0.0)
        if not pause:
            log.warning(
                "the outbox holds back rows for %r: %s",
                destination,
                error,
                extra={"queue": destination, "error": str(error)},
            )
        self._pause[destination] = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._until[destination] = time.monotonic() + self._pause[destination]

    def let_go(self, destination: str) -> None:
        if self._pause.pop(destination, 0.0):
            del self._until[destination]
            log.warning("the outbox sends to %r again", destination, extra={"queue": destination})
