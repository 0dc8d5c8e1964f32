"""Services: loops that do one step again and again, also while the store fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from headrace.core.job.ids import JobId
from headrace.errors import StoreError
from headrace.store.contract import Listener, ListenerHandle
from headrace.worker.logs.store_outage import StoreOutage
from headrace.worker.observer import Observe, unobserved

log = logging.getLogger("headrace.worker")

# Notifications say when to poll; this is for when one is lost.
POLL = 5.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_CONNECTIONS = 3
_PATIENCE = 60.0


class Service(ABC):
    """Runs `step` until `stop`. A store that fails is waited for; `outage` logs it. An unexpected
    error is logged and counted as a crash, and the service goes on."""

    name = "service"
    scope = ""
    """The scope of its errors, for hooks; its name if empty."""

    def __init__(self) -> None:
        self.crashes = 0
        self.observe: Observe = unobserved
        self.outage = StoreOutage()
        """Shared by all services of a worker."""
        self.patience = _PATIENCE
        """The seconds for which it goes on after a cancellation, to be stopped by its owner."""
        self.stopping = False
        self._wake = asyncio.Event()
        self._pause = 0.0
        self._in_doubt = False
        self._broken = 0
        self.has_stepped = False
        """Whether it has done what was due when it began."""

    @abstractmethod
    async def step(self) -> float:
        """Do what is due; the seconds to rest before the next step."""

    async def recover(self) -> None:  # noqa: B027
        """Put right what a failed step may have left behind; called before the next one."""

    def wake(self) -> None:
        """Cut a rest short."""
        self._wake.set()

    def look_now(self) -> None:
        """Do the next step now: time has been moved."""
        self.wake()

    def stop(self) -> None:
        self.stopping = True
        self.wake()

    def begin(
        self, outage: StoreOutage, observe: Observe | None, patience: float, name: str
    ) -> asyncio.Task[None]:
        """Begin to run, as a part of the worker that has this outage; `observe` gets its errors.
        The task ends after `stop`; once it is cancelled, after `patience` seconds at the latest."""
        self.outage, self.patience = outage, patience
        if observe is not None:
            self.observe = observe
        return asyncio.create_task(self.run_to_the_end(), name=f"headrace-{name}")

    async def run(self) -> None:
        try:
            while not self.stopping:
                await self._rest(await self._one_step())
        finally:
            self.leave_outage()

    async def run_to_the_end(self) -> None:
        """Run until `stop`, also through a cancellation before that: `asyncio.run` cancels every
        task of its loop when its main function ends, and the worker, which is cancelled too, needs
        its services to stop well. The cut step counts as one that failed. If nobody stops it
        within `patience` seconds, it ends: its owner is gone, and the program waits for it."""
        ends_at: float | None = None
        while not self.stopping:
            try:
                async with asyncio.timeout_at(ends_at):
                    await self.run()
            except asyncio.CancelledError:
                if self.stopping:
                    raise
                self._in_doubt = True
                ends_at = ends_at or asyncio.get_running_loop().time() + self.patience
            except TimeoutError:
                log.warning(
                    "the %s was cancelled, and ends: nobody has stopped it within %.0f s",
                    *(self.name, self.patience),
                    extra={"service": self.name},
                )
                return

    async def _one_step(self) -> float:
        try:
            if self._in_doubt:
                await self.recover()
            rest = await self.step()
            self.has_stepped = True
            self._all_well()
        except StoreError as error:
            return self._in_trouble(error)
        except Exception as error:
            self.crashes += 1
            log.exception("the %s crashed; it goes on", self.name, extra={"service": self.name})
            self.observe(self.scope or self.name, error, {"crashed": True})
            return self._next_pause()
        return rest

    def leave_outage(self) -> None:
        """It has ended: whether the store answers is no longer its concern."""
        self.outage.leave(self)

    async def _rest(self, seconds: float) -> None:
        if seconds > 0 and not self.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()

    def _in_trouble(self, error: StoreError) -> float:
        self._in_doubt = True
        self.outage.trouble(self, f"the {self.name} waits", error)
        self.observe(self.scope or self.name, error, {})
        # Each of its connections may have broken while the store was away, which shows when it is
        # used again: the next try is not put off for that.
        self._broken = self._broken + 1 if getattr(error, "sent", False) else 0
        return _FIRST_PAUSE if 0 < self._broken <= _CONNECTIONS else self._next_pause()

    def _all_well(self) -> None:
        if self._in_doubt:
            self.outage.well(self)
        self._in_doubt, self._pause, self._broken = False, 0.0, 0

    def _next_pause(self) -> float:
        self._pause = longer_pause(self._pause)
        return self._pause


class QueuePoller(Service):
    """A service with something to do for each queue. A queue in trouble backs off by itself and
    holds back no other."""

    def __init__(
        self, queues: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._next_at = dict.fromkeys(queues, 0.0)
        self._not_before = dict.fromkeys(queues, 0.0)
        self._pauses: dict[str, float] = {}
        self._handles: list[ListenerHandle] = []
        self._asked: asyncio.Event | None = None
        """Set at the end of the next step, if somebody waits for that."""

    @abstractmethod
    async def poll(self, queue: str) -> float:
        """Do what is due for a queue; the most seconds until the next poll."""

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle | None:
        """Have the store call `listener` when a poll should not wait, if it can."""
        return None

    async def listen(self) -> None:
        for queue in self._next_at:
            handle = await self.wake_on(queue, partial(self._notified, queue))
            if handle is not None:
                self._handles.append(handle)

    async def add(self, queue: str) -> None:
        """Poll one more queue, once the service runs."""
        if queue in self._next_at:
            return
        handle = await self.wake_on(queue, partial(self._notified, queue))
        if handle is not None:
            self._handles.append(handle)
        self._next_at[queue] = self._not_before[queue] = 0.0
        self.wake()

    async def close(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            await handle.close()

    async def step(self) -> float:
        now = self._monotonic()
        due = [queue for queue, next_at in self._next_at.items() if next_at <= now]
        asked, self._asked = self._asked, None
        await asyncio.gather(*map(self._poll_one, due))
        if asked is not None:
            asked.set()
        next_at = min(self._next_at.values(), default=now + POLL)
        return max(next_at - self._monotonic(), 0.0)

    def poll_soon(self, queue: str) -> None:
        """Poll a queue now."""
        self._notified(queue, None)

    def look_now(self) -> None:
        for queue in self._next_at:
            self._next_at[queue] = 0.0
        self.wake()

    async def poll_now(self) -> None:
        """Have the running service poll every queue, and return when it has."""
        if self.stopping:
            return
        self._asked = done = self._asked or asyncio.Event()
        self.look_now()
        await done.wait()

    def delay(self, queue: str, seconds: float) -> None:
        """Delay notifications: some stores notify of every change, also of those that do not matter
        here."""
        self._not_before[queue] = self._monotonic() + seconds

    async def poll_all(self) -> None:
        """Poll every queue once, after the service has ended."""
        await asyncio.gather(*map(self._poll_one, self._next_at))

    async def _poll_one(self, queue: str) -> None:
        # Before the poll: a notification that comes meanwhile must not be overwritten.
        self._next_at[queue] = self._monotonic() + POLL
        try:
            rest = await self.poll(queue)
        except StoreError as error:
            self.outage.trouble((self, queue), f"the {self.name} waits", error)
            rest = self._longer_pause_at(queue)
            self.observe(self.scope or self.name, error, {"queue": queue})
        except Exception as error:
            self.crashes += 1
            log.exception(
                "the %s crashed at queue %r; it goes on",
                *(self.name, queue),
                extra={"service": self.name, "queue": queue},
            )
            self.observe(self.scope or self.name, error, {"queue": queue, "crashed": True})
            rest = self._longer_pause_at(queue)
        else:
            if self._pauses.pop(queue, None):
                self.outage.well((self, queue))
        self._next_at[queue] = min(self._next_at[queue], self._monotonic() + rest)

    def _notified(self, queue: str, _: Sequence[JobId] | None) -> None:
        if queue in self._next_at:
            self._next_at[queue] = min(self._next_at[queue], self._not_before[queue])
            self.wake()

    def leave_outage(self) -> None:
        super().leave_outage()
        if self._asked is not None:
            self._asked.set()
        for queue in self._pauses:
            self.outage.leave((self, queue))

    def _longer_pause_at(self, queue: str) -> float:
        pause = self._pauses[queue] = longer_pause(self._pauses.get(queue, 0.0))
        return pause


def longer_pause(pause: float) -> float:
    """The seconds to wait for a store that is still away after a wait of `pause` seconds."""
    return min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)


async def ended(service: Service, running: asyncio.Task[None], grace: float) -> None:
    """Stop a service and wait for its end; after `grace` seconds it is cancelled. One that somebody
    else has cancelled meanwhile has ended too."""
    service.stop()
    try:
        async with asyncio.timeout(grace):
            await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
    except TimeoutError:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
