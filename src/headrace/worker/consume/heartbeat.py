"""Renews leases and the worker's record from a thread of its own, has the starts of long runs
recorded, and warns when the event loop is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from headrace.core.clock import Clock
from headrace.core.job.delivery import LeasedDelivery
from headrace.errors import StoreError
from headrace.store.contract import Consumer, Store, renew_every
from headrace.worker.logs.store_outage import StoreOutage
from headrace.worker.observer import Observe, unobserved
from headrace.worker.upkeep.registry import Registry

log = logging.getLogger("headrace.worker")

_WORKER = str(Path(__file__).parents[1])
_NOT_RENEWED = "leases cannot be renewed"
_BEAT = 1.0
_BLOCKED_AFTER = 2.0
_RECORD_EVERY = 2.0
"""How old what people see of the worker may be."""


Leases = tuple[Consumer, Collection[LeasedDelivery]]
"""A consumer, and what it holds."""


class StoreClock:
    """The store's time, without asking for it each time: a worker with a fast clock must not let
    jobs expire early. Compared now and then, because clocks are adjusted."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ahead_ms = 0

    async def compare(self) -> None:
        self._ahead_ms = await self._store.time_ms() - self._clock.now_ms()

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms


class Heartbeat:
    """A thread with a small event loop. A handler that blocks the worker's loop does not block this
    one, so its job stays its own."""

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        leases: Callable[[], Iterable[Leases]],
        lease: float,
        lost: Callable[[list[LeasedDelivery]], None],
        registry: Registry | None = None,
        record_starts: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._compare_at = 0.0
        self._record_at = 0.0
        self._leases = leases
        self._lost = lost
        self._registry = registry
        self._record_starts = record_starts
        self._renew_after = renew_every(lease)
        self._beat = min(_BEAT, lease / 6)
        # Half a beat less: else the beat that is due would come a moment too early.
        self._record_after = min(_RECORD_EVERY, self._renew_after) - self._beat / 2
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way: defaultdict[object, set[asyncio.Task[None]]] = defaultdict(set)
        """What it waits for, of each source and each other work."""
        self._renew_again: dict[Consumer, float] = {}
        """When a source asks again although its answer is late."""
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="headrace-heartbeat", daemon=True
        )
        self._watched = asyncio.get_running_loop()
        self._watched_thread = threading.get_ident()
        self._answered_at = self._asked_at = self._beat_at = time.monotonic()
        self.observe: Observe = unobserved
        self._warned = False
        self.outage = StoreOutage()

    def start(self) -> None:
        self._compare_at = time.monotonic() + self._renew_after
        self._record_at = time.monotonic() + self._record_after
        self._beat_at = time.monotonic()
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                # It may have ended just now.
                self._loop.call_soon_threadsafe(self._wake.set)
        # Not joined in a thread of the loop's: handlers may have taken all of those.
        while self._thread.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def step(self) -> None:
        """Renew the leases that are older than a third of their length, and wait until they
        are."""
        await asyncio.gather(*(self._renew(consumer, due) for consumer, due in self._due()))

    def _due(self) -> Iterator[tuple[Consumer, Sequence[LeasedDelivery]]]:
        oldest = time.monotonic() - self._renew_after
        for consumer, held in self._leases():
            # Copied in one go: the worker's thread changes the set meanwhile.
            due = [delivery for delivery in tuple(held) if delivery.leased_at <= oldest]
            if due:
                yield consumer, due

    async def renew_all(self) -> None:
        """Renew all leases, from the worker's own loop; also of what is on its way here."""
        for consumer, _ in self._leases():
            if owned := await consumer.recover(()):
                await self._renew(consumer, owned)

    async def _renew(self, consumer: Consumer, due: Sequence[LeasedDelivery]) -> None:
        now = time.monotonic()
        lost = await consumer.renew(due)
        for delivery in due:
            # The answer to a later request may have come before.
            delivery.leased_at = max(delivery.leased_at, now)
        for delivery in lost:
            delivery.leased_at = float("inf")
        if lost:
            # Some may just have been settled: only the worker's own thread knows.
            self._watched.call_soon_threadsafe(self._lost, lost)

    def watch(self) -> None:
        """Warn, once per blockage, with the stack of what blocks the event loop."""
        blocked = self.blocked
        if blocked < max(_BLOCKED_AFTER, 3 * self._beat):
            self._warned = False
        elif not self._warned:
            self._warned = True
            frame = sys._current_frames().get(self._watched_thread)
            stack = _stack_of(frame) if frame else "(unknown)"
            log.warning(
                "the event loop has been blocked for %.1f s; a handler should await or be a "
                "sync task, which runs in a thread. It is at:\n%s",
                blocked,
                stack,
                extra={"seconds": round(blocked, 3)},
            )
        if self._answered_at >= self._asked_at:
            self._asked_at = time.monotonic()
        self._watched.call_soon_threadsafe(self._answer)

    @property
    def blocked(self) -> float:
        """Seconds for which the event loop has owed an answer."""
        owed = self._answered_at < self._asked_at
        return time.monotonic() - self._asked_at if owed else 0.0

    @property
    def silent(self) -> float:
        """Seconds since its last beat, while it should beat."""
        beats = self._thread.ident is not None and not self._stopping.is_set()
        return time.monotonic() - self._beat_at if beats else 0.0

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._beat_on())
            runner.run(self._store.close())

    async def _beat_on(self) -> None:
        """Begin what is due at each beat. No answer that is late holds back anything but the work
        that it belongs to."""
        self._wake, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._beat):
                    await self._wake.wait()
            if self._stopping.is_set():
                break
            self._tick()
            self.watch()
            self._beat_at = time.monotonic()
        await asyncio.gather(*(task for tasks in self._under_way.values() for task in tasks))

    def _tick(self) -> None:
        self._renew_each()
        for work in (self._compare_clocks, self._write_record, self._write_starts):
            if not self._under_way.get(work):
                self._begin(work, work())

    def _renew_each(self) -> None:
        """Each source renews for itself. One whose answer is late asks again before the leases that
        it may have renewed are over: the next answer may be late too."""
        now = time.monotonic()
        for consumer, due in self._due():
            if not self._under_way.get(consumer) or now >= self._renew_again.get(consumer, now):
                self._renew_again[consumer] = now + self._renew_after
                self._begin(consumer, self._renew_tried(consumer, due))
        for gone in self._renew_again.keys() - {consumer for consumer, _ in self._leases()}:
            del self._renew_again[gone]
            self.outage.leave((_NOT_RENEWED, gone))

    async def _renew_tried(self, consumer: Consumer, due: Sequence[LeasedDelivery]) -> None:
        part = _NOT_RENEWED, consumer
        await self._tried(_NOT_RENEWED, partial(self._renew, consumer, due), part)

    def _begin(self, part: object, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way[part].add(task)
        task.add_done_callback(partial(self._done, part))

    def _done(self, part: object, task: asyncio.Task[None]) -> None:
        self._under_way[part].discard(task)
        if not self._under_way[part]:
            del self._under_way[part]

    async def _compare_clocks(self) -> None:
        if time.monotonic() >= self._compare_at and await self._tried(
            "the store's clock cannot be read", self._clock.compare
        ):
            self._compare_at = time.monotonic() + self._renew_after

    async def _write_record(self) -> None:
        if self._registry is None or time.monotonic() < self._record_at:
            return
        # If it fails, it is tried at the next beat: the record expires after a lease.
        if await self._tried("the worker's record cannot be written", self._registry.beat):
            self._record_at = time.monotonic() + self._record_after

    async def _write_starts(self) -> None:
        if self._record_starts is not None:
            await self._tried("the starts of runs cannot be recorded", self._record_starts)

    async def _tried(
        self, complaint: str, work: Callable[[], Awaitable[None]], part: Hashable | None = None
    ) -> bool:
        """Whether it succeeded; `part` is what has the trouble, if it is not all of this work."""
        part = complaint if part is None else part
        try:
            await work()
        except StoreError as error:
            self.outage.trouble(part, complaint, error)
            self.observe("heartbeat", error, {})
            return False
        except Exception:
            log.exception("the heartbeat crashed; it goes on", extra={"service": "heartbeat"})
            return False
        self.outage.well(part)
        return True


def _stack_of(frame: FrameType) -> str:
    """Where a frame is, without the frames of the worker that lead to the function it runs."""
    stack = traceback.extract_stack(frame)
    ours = [at for at, each in enumerate(stack) if each.filename.startswith(_WORKER)]
    theirs = stack[ours[-1] + 1 :] if ours else stack
    return "".join(traceback.format_list(theirs or stack))
