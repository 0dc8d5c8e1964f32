"""Sends what an outbox holds."""

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
from headrace.core.job.retry import Retry
from headrace.errors import ConfigError, HeadraceError
from headrace.outbox.commit_listener import CommitListener
from headrace.outbox.databases import database_of
from headrace.outbox.outlet import Outlet
from headrace.outbox.patience import Patience
from headrace.outbox.pending import Pending, Row, told
from headrace.outbox.sealing import unseal
from headrace.worker.service import Service

if TYPE_CHECKING:
    from headrace.outbox.outbox import Outbox

log = logging.getLogger("headrace.outbox")

# Refusals are for good as far as the store knows; a person may still put right what is wrong.
RETRY = Retry(12, base=1.0, cap=300.0)
_SHORTEST_POLL = 0.05


class Relay:
    """Sends rows, those of one destination in the order in which they were written, and removes
    them. Any number of relays may run: what one has, the others leave alone, and if it dies, they
    take it over when its lease is over.

    `await relay.run()` ends after `stop()`; `async with relay:` runs it beside other code; and
    `await relay.step()` sends what is there now.
    """

    def __init__(
        self, outbox: Outbox, database: object, *, lease: float, poll: float, retry: Retry
    ) -> None:
        self._lease = limits.check_seconds("relay(lease=)", lease, least=0.05)
        self._poll = limits.check_seconds("relay(poll=)", poll, least=_SHORTEST_POLL)
        if not isinstance(retry, Retry):
            raise ConfigError(f"relay(retry=) must be a Retry(...), not {retry!r}")
        self._retry = retry
        self._outbox = outbox
        self._database = database_of(database)
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._pending = Pending(outbox.table_name, name, int(self._lease * 1000))
        self._outlet = Outlet(outbox.app)
        self._patience = Patience()
        self._rounds = _Rounds(self)
        self._commits: CommitListener | None = None
        self._listens = outbox.notify
        self._pause = 0.0
        self._exits = AsyncExitStack()
        self._entered = False
        self._running: asyncio.Task[None] | None = None

    async def step(self) -> int:
        """Send the next rows, up to 500 of them; how many were sent. Raises `StoreUnavailable` if
        the database cannot be used."""
        # First of all: rows that could not be sent anyway need not be locked.
        await self._outlet.open()
        held = self._patience.held()
        if not await self._database.run(lambda connection: self._pending.waiting(connection, held)):
            return 0
        ends_at = time.monotonic() + self._lease / 2
        rows = await self._database.run(lambda connection: self._pending.take(connection, held))
        by_destination: dict[str, list[Row]] = {}
        for row in rows:
            by_destination.setdefault(row.destination, []).append(row)
        sent = 0
        for destination, batch in by_destination.items():
            # What is left when the lease may soon be over is for the next step.
            if time.monotonic() < ends_at:
                sent += await self._send(destination, batch)
        if sent < len(rows):
            await self._database.run(self._pending.release)
        return sent

    async def run(self) -> None:
        """Send whatever comes, through whatever the store and the database do meanwhile, until
        `stop`."""
        async with self._exits:
            self._exits.push_async_callback(self.close)
            await self._rounds.run()

    def stop(self) -> None:
        """Have `run` end after the step at hand."""
        self._rounds.stop()

    async def close(self) -> None:
        """Give back connections; only needed after steps of one's own."""
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
        """A step, and how long to rest after it: ever longer while there is nothing to do."""
        if not self._entered:
            # Here, where a store that is away is waited for.
            await self._exits.enter_async_context(self._outbox.app)
            self._entered = True
        if await self.step():
            self._pause = 0.0
            return 0.0
        if self._listens and (self._commits is None or self._commits.closed):
            self._commits = await CommitListener.on(
                self._database, self._outbox.table_name, self._rounds.wake
            )
            self._listens = self._commits is not None
        self._pause = min(max(self._pause * 2, _SHORTEST_POLL), self._poll)
        return self._pause

    async def _send(self, destination: str, rows: Sequence[Row]) -> int:
        """Send rows of one destination, and remove those that were taken."""
        try:
            sealed = [unseal(row.parcel) for row in rows]
            parcels = [one.parcel(row.waited_ms) for one, row in zip(sealed, rows, strict=True)]
            taken, full = await self._outlet.send(destination, parcels)
        except Exception as error:
            return await self._refused(destination, rows, error)
        # At once: until they are gone, a relay that dies has them sent a second time.
        if taken:
            await self._database.run(lambda c: self._pending.sent(c, rows[:taken]))
        if full is not None:
            self._patience.hold(destination, full)
        else:
            self._patience.let_go(destination)
        return taken

    async def _refused(self, destination: str, rows: Sequence[Row], error: Exception) -> int:
        """Wait if the store says that it passes; else find the rows it is about, and count."""
        if isinstance(error, HeadraceError) and error.retryable:
            self._patience.hold(destination, error)
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
            row.position, destination, attempt, then, told(error),
        )  # fmt: skip
        return 0

    async def _one_by_one(self, destination: str, rows: Sequence[Row]) -> int:
        sent = 0
        for row in rows:
            sent += await self._send(destination, [row])
            if destination in self._patience.held():
                break
        return sent


class _Rounds(Service):
    name = "outbox relay"

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    async def step(self) -> float:
        return await self._relay._round()
