"""Fires schedules: one job for each tick, whichever worker is first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from headrace.client.schedules import SPACE, Schedules
from headrace.core.job.ids import JobId
from headrace.core.schedule.schedule import MOST_MISSED, Record, decode_record, encode_record
from headrace.errors import QueueFull, StoreError, StoreMismatch
from headrace.store.contract import ListenerHandle, Store
from headrace.worker.service import Service
from headrace.worker.upkeep.schedule_declarer import ScheduleDeclarer

log = logging.getLogger("headrace.worker")

# Notifications report changes; this is for when one is lost.
_POLL = 5.0
# Each tick changes its record, and each change notifies every worker: read no more often than this.
_BREATH = 0.2
# How long others leave a tick to the holder of the ticket. If the holder dies, a tick is late by
# this; that must not make it a missed one (`PROMPT_MS`).
_TICKET = 0.5
_AT_ONCE = 50


class Scheduler(Service):
    """Sleeps until the next tick of any schedule, or until it is notified of a change. All times
    are the store's: this machine's clock is never asked.

    Any worker may fire any schedule, those in an app's code only if it runs that app. A ticket lets
    about one worker do so at a time; that each tick makes one job does not depend on it."""

    name = "scheduler"

    def __init__(
        self,
        store: Store,
        schedules: Schedules,
        worker: str,
        monotonic: Callable[[], float] = time.monotonic,
        watched_ms: int | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self.watched_ms = watched_ms
        """Since when no tick counts as missed, if time is moved by hand."""
        self._schedules = schedules
        self._declared = schedules.declared
        self._declarer = ScheduleDeclarer(
            store, self._declared, worker, monotonic, self._is_new_trouble
        )
        self.ticket = SchedulerTicket(store, worker, monotonic)
        self._monotonic = monotonic
        self._read_at = 0.0
        self._planned: dict[str, tuple[bytes, int | None]] = {}
        self._troubles: dict[str, str] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._listening: ListenerHandle | None = None

    async def listen(self) -> None:
        self._listening = await self._store.on_kv(SPACE, self._on_change)

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._listening is not None:
            await self._listening.close()
        await self._declarer.close()

    def look_now(self) -> None:
        # By the time of the store, the ticket may be over.
        self.ticket.forget()
        self.wake()

    async def step(self) -> float:
        await self._declarer.declare(self.watched_ms)
        records = await self._store.kv_all(SPACE)
        self._read_at = self._monotonic()
        if await self._was_emptied(records):
            log.warning(
                "the schedules are gone (FLUSHALL?); those in code are made again",
                extra={"schedules": len(self._declared)},
            )
            self._declarer.begin()
            self._planned.clear()
            return 0.0
        if not records:
            self._planned.clear()
            return _POLL
        await self._declarer.review(records)
        now_ms = await self._store.time_ms()
        asked_at = self._monotonic()
        await self._plan(records)
        due = [name for name, (_, tick) in self._planned.items() if _is_due(tick, now_ms)]
        if not await self.ticket.allows(due):
            return _TICKET
        for first in range(0, len(due), _AT_ONCE):
            await self._fire_all(due[first : first + _AT_ONCE], now_ms)
        ticks = [tick for _, tick in self._planned.values() if tick is not None]
        until = (min(ticks, default=now_ms + 1000 * _POLL) - now_ms) / 1000
        return max(min(until - (self._monotonic() - asked_at), _POLL), 0.0)

    async def _was_emptied(self, records: Mapping[str, bytes]) -> bool:
        """Whether schedules in code are missing because the store lost everything, and not because
        someone removed them: then the trace of their declaration is gone too."""
        missing = self._planned.keys() & self._declared.keys() - records.keys()
        return bool(missing) and await self._declarer.is_forgotten()

    async def _plan(self, records: Mapping[str, bytes]) -> None:
        """Find the next tick of each schedule that has changed."""
        for name in self._planned.keys() - records.keys():
            del self._planned[name]
            self._troubles.pop(name, None)
        for name, data in records.items():
            known = self._planned.get(name)
            if known is None or known[0] != data:
                self._planned[name] = (data, await self._next_tick(name, data))

    async def _next_tick(self, name: str, data: bytes) -> int | None:
        """Zero if jobs of earlier ticks may be missing; None if it is not ours or has ended."""
        record = None
        try:
            record = decode_record(data)
            if record.definition.declared and name not in self._declared:
                return None
            return 0 if record.reserved else record.next_ms()
        except Exception as error:  # Whatever is wrong with one, the others go on.
            if self._is_new_trouble(name, str(error)) and record is not None:
                await self._write(name, data, record.failed(str(error)))
            return None

    async def _fire_all(self, names: Sequence[str], now_ms: int) -> None:
        fired = [self._fire(name, self._planned[name][0], now_ms) for name in names]
        ended = await asyncio.gather(*fired, return_exceptions=True)
        trouble = None
        for name, error in zip(names, ended, strict=True):
            if isinstance(error, StoreError):
                trouble = error
            elif isinstance(error, Exception):
                self._is_new_trouble(name, str(error))
            elif error is not None:
                raise error
        # Raised after all were tried: in a cluster, one queue may be away and the others not.
        if trouble is not None:
            raise trouble

    async def _fire(self, name: str, data: bytes, now_ms: int) -> None:
        old = decode_record(data)
        record, left_out = old.reserve(now_ms, self.watched_ms)
        held = await self._write(name, data, record)
        if held is None:
            # Another worker was first; check soon whether it has finished.
            self._planned[name] = (b"", now_ms + int(1000 * _BREATH))
            return
        if left_out:
            log.warning(
                "schedule %r missed over %d ticks: the oldest are left out",
                name,
                MOST_MISSED,
                extra={"schedule": name},
            )
        if record.reserved:
            record = await self._send(name, record, now_ms)
            held = await self._write(name, held, record)
        else:
            log.warning(
                "schedule %r was not fired in time: it waits for its next tick",
                name,
                extra={"schedule": name},
            )
        if held is not None:
            self._planned[name] = (held, await self._next_tick(name, held))

    async def _send(self, name: str, record: Record, now_ms: int) -> Record:
        """The record after the jobs of its reserved ticks were sent, or given up."""
        try:
            refused = await self._schedules.send_ticks(
                name, record.reserved_definition, record.reserved, now_ms
            )
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreMismatch):
                raise
            self._is_new_trouble(name, str(error))
            return record.failed(str(error))
        for why in refused:
            full = isinstance(why, QueueFull)
            what = "a tick is left out" if full else "middleware refused the job of a tick"
            said = str(why) if full else repr(why)
            log.warning("schedule %r: %s: %s", name, what, said, extra={"schedule": name})
        if not refused:
            self._troubles.pop(name, None)
        return record.cleared(len(refused), str(refused[-1]) if refused else "")

    async def _write(self, name: str, old: bytes, record: Record) -> bytes | None:
        """The bytes that are in the store now; None if another worker has changed them."""
        new = encode_record(record)
        if new == old or await self._store.kv_set(SPACE, name, new, expected=old):
            return new
        return None

    def _is_new_trouble(self, name: str, problem: str) -> bool:
        """Log what is wrong with a schedule, the first time."""
        if self._troubles.get(name) == problem:
            return False
        self._troubles[name] = problem
        log.error("schedule %r does not fire: %s", name, problem, extra={"schedule": name})
        return True

    def _on_change(self, _: Sequence[JobId] | None) -> None:
        if self._alarm is None:
            wait = max(self._read_at + _BREATH - self._monotonic(), 0.0)
            self._alarm = asyncio.get_running_loop().call_later(wait, self._look)

    def _look(self) -> None:
        self._alarm = None
        self.wake()


def _is_due(tick: int | None, now_ms: int) -> bool:
    return tick is not None and tick <= now_ms


class SchedulerTicket:
    """Lets about one worker of the fleet act at a time, and each of the others after a while."""

    def __init__(self, store: Store, worker: str, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._worker = worker.encode()
        self._monotonic = monotonic
        self._ours_until = 0.0
        self._waited = False

    def forget(self) -> None:
        self._ours_until = 0.0

    async def allows(self, due: Sequence[str]) -> bool:
        """A worker that is refused waits for as long as a ticket lasts, and is then let through:
        the holder may have died, or may not know the schedule."""
        if self._waited or not due:
            self._waited = False
            return True
        asked_at = self._monotonic()
        expected = self._worker if asked_at < self._ours_until else None
        taken = await self._store.kv_set(
            "tickets", "scheduler", self._worker, ttl=_TICKET, expected=expected
        )
        self._waited = not taken
        if taken:
            self._ours_until = asked_at + _TICKET
        return taken
