"""`burst=True`: a worker that ends once its queues are empty."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.core.job.ids import JobId
from headrace.core.job.outcome import gated_task
from headrace.core.job.state import State
from headrace.core.queue_names import group_source
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.service import QueuePoller, Service
from headrace.worker.settings import WorkerSettings

log = logging.getLogger("headrace.worker")

_SOON = 0.05
_LONGEST = 0.5
# How many blocked jobs are read at once, to see whether a limit or a batch holds them.
_EXAMINED = 500
_PLACES = ("lane", "task_lane", "flow")


class Remainder(NamedTuple):
    """What is in the queues of a worker."""

    busy: int = 0
    """Waits for a worker, or runs on one, whichever that is."""
    scheduled: int = 0
    blocked: int = 0
    paused: int = 0

    @property
    def later(self) -> int:
        """What only time, or a person, lets go on."""
        return self.scheduled + self.blocked + self.paused

    def with_queue(self, counts: Counts, *, paused: bool) -> Remainder:
        waiting = 0 if paused else counts.waiting
        return Remainder(
            self.busy + waiting + counts.running,
            self.scheduled + counts.scheduled,
            self.blocked + counts.blocked,
            self.paused + counts.waiting - waiting,
        )

    def __str__(self) -> str:
        named = (("scheduled", self.scheduled), ("blocked", self.blocked), ("paused", self.paused))
        return ", ".join(f"{count:,} {what}" for what, count in named if count) or "nothing"


class BurstEnd(Service):
    """Ends a worker when nothing waits or runs in its queues, on any worker: jobs and events whose
    time has not come, or that others keep blocked, are left. Before that, everything that could
    let more jobs go has looked once more: at due times, flows, dead jobs and schedules."""

    name = "end of the burst"
    scope = "burst"

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        loops: ConsumerLoops,
        services: Callable[[], Iterable[Service]],
        end: Callable[[], None],
    ) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._loops = loops
        self._others = services
        self._end = end
        self._rest_next = _SOON
        self._held: tuple[str, Sequence[JobId]] | None = None
        self.looked = 0
        """How often it has looked at the queues."""
        self.left = 0
        """What was left for later, once it has ended the worker."""

    async def step(self) -> float:
        others = list(self._others())
        if self._is_at_work() or not all(each.has_stepped for each in others):
            self._rest_next = _SOON
            return _SOON
        if not (await self._remainder()).busy:
            pollers = [each for each in others if isinstance(each, QueuePoller)]
            await asyncio.gather(*(each.poll_now() for each in pollers))
            if not self._is_at_work() and await self._has_ended():
                self._end()
                return _LONGEST
        self._rest_next = min(2 * self._rest_next, _LONGEST)
        return self._rest_next

    def _queues(self) -> list[str]:
        """Those of jobs, and of all groups, also of those that came later."""
        groups = (queue for loop in self._loops.of_groups for queue in loop.queues)
        return [*self._settings.queues, *dict.fromkeys(groups)]

    def _is_at_work(self) -> bool:
        return any(loop.in_flight for loop in self._loops)

    async def _has_ended(self) -> bool:
        left = await self._remainder()
        if left.busy or (left.blocked and await self._opens_by_itself()):
            return False
        self.left = left.later
        log.info(
            "nothing waits or runs any more, the burst ends; left for later: %s",
            left,
            extra={"scheduled": left.scheduled, "blocked": left.blocked, "paused": left.paused},
        )
        return True

    async def _remainder(self) -> Remainder:
        self.looked += 1
        queues = self._queues()
        sources = {queue: group_source(queue) for queue in queues}
        logs = {source.log for source in sources.values() if source is not None}
        groups = await self._store.groups(sorted(logs)) if logs else {}
        found = Remainder()
        for queue, state in zip(queues, await self._store.survey(queues), strict=True):
            counts, source = state.counts, sources[queue]
            for group in groups.get(source.log, ()) if source else ():
                # With what the group has not taken from the log.
                counts = group.counts if group.name == source.group else counts  # type: ignore[union-attr]
            found = found.with_queue(counts, paused=state.paused)
        return found

    async def _opens_by_itself(self) -> bool:
        """Whether a limit or a batch holds a job, which goes on when its turn comes. In a queue
        that is paused it would not be started even then."""
        queues = self._queues()
        states = await self._store.survey(queues)
        running = [name for name, it in zip(queues, states, strict=True) if not it.paused]
        if (
            self._held is not None
            and self._held[0] in running
            and await self._are_held(*self._held)
        ):
            return True
        self._held = None
        for queue in running:
            if await self._finds_held(queue):
                return True
        return False

    async def _finds_held(self, queue: str) -> bool:
        """Notes the page that it finds: there may be many blocked jobs, and it looks often."""
        cursor = ""
        while True:
            page = await self._store.browse(queue, State.BLOCKED, cursor, _EXAMINED)
            if page.job_ids and await self._are_held(queue, page.job_ids):
                self._held = queue, page.job_ids
                return True
            cursor = page.cursor
            if not cursor:
                return False

    async def _are_held(self, queue: str, job_ids: Sequence[JobId]) -> bool:
        """Whether a limit or a batch holds one of these."""
        for seen in await self._store.get(queue, job_ids, bodies=False):
            gate = seen.reason if seen is not None and seen.state is State.BLOCKED else "lane"
            if gate not in _PLACES and gated_task(gate) is None:
                return True
        return False
