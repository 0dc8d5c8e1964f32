"""Goes round the queues of a worker: looks at each now and then, and at once when called."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from headrace.core.job.ids import JobKey
from headrace.errors import StoreError
from headrace.store.contract import Listener, ListenerHandle
from headrace.worker.service import Service

log = logging.getLogger("headrace.worker")

# Signals tell when to look; this is for when one is lost.
POLL = 5.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Rounds(Service):
    """A service with something to do for each queue. One queue's trouble is waited for by itself
    and does not hold back the others; the same trouble is named once."""

    def __init__(
        self, queues: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._next_at = dict.fromkeys(queues, 0.0)
        self._not_before = dict.fromkeys(queues, 0.0)
        self._troubles: dict[str, tuple[str, float]] = {}
        self._handles: list[ListenerHandle] = []

    @abstractmethod
    async def look(self, queue: str) -> float:
        """Do what there is to do for a queue; the most seconds until the next look."""

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle | None:
        """Have `listener` called when a look should not wait, if the store can tell of that."""
        return None

    async def listen(self) -> None:
        for queue in self._next_at:
            handle = await self.wake_on(queue, partial(self._called, queue))
            if handle is not None:
                self._handles.append(handle)

    async def close(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            await handle.close()

    async def step(self) -> float:
        now = self._monotonic()
        due = [queue for queue, next_at in self._next_at.items() if next_at <= now]
        await asyncio.gather(*map(self._visit, due))
        next_at = min(self._next_at.values(), default=now + POLL)
        return max(next_at - self._monotonic(), 0.0)

    def call(self, queue: str) -> None:
        """Have it look at a queue now."""
        self._called(queue, None)

    def hold(self, queue: str, seconds: float) -> None:
        """Let calls wait for so long: some stores call for every change that others make."""
        self._not_before[queue] = self._monotonic() + seconds

    async def last_round(self) -> None:
        """Look once at every queue, after the service has ended."""
        await asyncio.gather(*map(self._visit, self._next_at))

    async def _visit(self, queue: str) -> None:
        # Before the look: a call that comes meanwhile must not be overwritten.
        self._next_at[queue] = self._monotonic() + POLL
        try:
            rest = await self.look(queue)
        except StoreError as error:
            rest = self._in_trouble_at(queue, str(error))
            self.observe(self.scope or self.name, error, {"queue": queue})
        except Exception as error:
            self.crashes += 1
            log.exception("the %s crashed at queue %r; it goes on", self.name, queue)
            self.observe(self.scope or self.name, error, {"queue": queue, "crashed": True})
            rest = self._in_trouble_at(queue, "")
        else:
            self._all_well_at(queue)
        self._next_at[queue] = min(self._next_at[queue], self._monotonic() + rest)

    def _called(self, queue: str, _: Sequence[JobKey] | None) -> None:
        self._next_at[queue] = min(self._next_at[queue], self._not_before[queue])
        self.wake()

    def _in_trouble_at(self, queue: str, trouble: str) -> float:
        known = {text for text, _ in self._troubles.values()}
        if trouble and trouble not in known:
            log.warning("the %s waits: %s", self.name, trouble)
        _, pause = self._troubles.get(queue, ("", 0.0))
        pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._troubles[queue] = trouble, pause
        return pause

    def _all_well_at(self, queue: str) -> None:
        if self._troubles.pop(queue, None) and not self._troubles:
            log.warning("the %s goes on", self.name)
