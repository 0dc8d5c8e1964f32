"""Cancelling jobs, one or a hundred thousand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.admin.jobs.listing import snapshots
from headrace.admin.matcher import JobMatcher
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.queue_names import group_source

if TYPE_CHECKING:
    from headrace.store.contract import Store

CANCELLED_TOGETHER = 1000
# Blocked ones first: cancelling another job may let them go.
_ORDER = (State.BLOCKED, State.SCHEDULED, State.WAITING, State.RUNNING)
_HIT = (State.CANCELLED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class CancelReport:
    """How a request to cancel jobs ended."""

    cancelled: int
    """These never start (again)."""
    running: int
    """These were asked to end."""
    ended: tuple[str, ...]
    """Ids of those that had ended already."""
    unknown: tuple[str, ...]
    """Ids that the store does not know (any more)."""
    logged: tuple[str, ...] = ()
    """Ids of matching events that are still in their topic's log, which all groups share."""


@dataclass
class CancelRequest:
    """One request to cancel, across queues and pages."""

    store: Store
    _states: dict[JobId, State] = field(default_factory=dict)
    _logged: dict[JobId, None] = field(default_factory=dict)

    async def named(self, queues: Sequence[str], job_ids: Sequence[JobId]) -> None:
        """Cancel jobs by id, each in the first queue in which it has not ended; events in all
        groups."""
        left = list(job_ids)
        for queue in queues:
            for start in range(0, len(left), CANCELLED_TOGETHER):
                await self._cancel(queue, left[start : start + CANCELLED_TOGETHER])
            if not group_source(queue):
                left = [key for key in left if self._states.get(key) not in _HIT]

    async def scheduled(self, logs: Sequence[str], job_ids: Sequence[JobId]) -> None:
        """Cancel those not found yet that are events before their time, in no group yet."""
        left = [job_id for job_id in job_ids if job_id not in self._states]
        for log in logs:
            for start in range(0, len(left), CANCELLED_TOGETHER):
                await self._cancel_scheduled(log, left[start : start + CANCELLED_TOGETHER])

    async def _cancel_scheduled(self, log: str, job_ids: Sequence[JobId]) -> None:
        seen = zip(job_ids, await self.store.get(log, job_ids), strict=True)
        due = [key for key, each in seen if each is not None and each.state is State.SCHEDULED]
        await self._cancel(log, due)

    async def matching(
        self, queues: Sequence[str], states: Sequence[State], matcher: JobMatcher
    ) -> None:
        """Cancel all matching jobs of the queues, a page at a time."""
        for state in (state for state in _ORDER if state in states):
            # Again for each state: jobs that move on meanwhile come into the next.
            surveyed = zip(queues, await self.store.survey(queues), strict=True)
            for queue in [name for name, now in surveyed if getattr(now.counts, state.value)]:
                await self._matching_in(queue, state, matcher)

    async def _matching_in(self, queue: str, state: State, matcher: JobMatcher) -> None:
        cursor, more = "", True
        while more:
            page = await self.store.browse(queue, state, cursor, CANCELLED_TOGETHER)
            job_ids = (
                page.job_ids if matcher.is_open else await self._meant(queue, page.job_ids, matcher)
            )
            await self._cancel_met(queue, job_ids)
            cursor, more = page.cursor, bool(page.cursor)

    def report(self, job_ids: Sequence[JobId] = ()) -> CancelReport:
        """What was done; which of these ids are unknown."""
        states = list(self._states.values())
        ended = [key for key, state in self._states.items() if state not in _HIT]
        return CancelReport(
            cancelled=states.count(State.CANCELLED),
            running=states.count(State.RUNNING),
            ended=tuple(map(ids.to_text, ended)),
            unknown=tuple(ids.to_text(key) for key in job_ids if key not in self._states),
            logged=tuple(ids.to_text(key) for key in self._logged if key not in self._states),
        )

    async def _meant(
        self, queue: str, job_ids: Sequence[JobId], matcher: JobMatcher
    ) -> list[JobId]:
        likely = [key for key in job_ids if matcher.may_match(key)]
        return [
            key
            async for key, seen in snapshots(self.store, queue, likely)
            if matcher.matches(key, seen)
        ]

    async def _cancel_met(self, queue: str, job_ids: Sequence[JobId]) -> None:
        """Cancel jobs that were there a moment ago: those that are gone have ended."""
        left = await self._cancel(queue, job_ids)
        if left and group_source(queue):
            seen = zip(left, await self.store.get(queue, left), strict=True)
            logged = {key: None for key, each in seen if each and not each.state.final}
            self._logged.update(logged)
            left = [key for key in left if key not in logged]
        for key in left:
            self._states.setdefault(key, State.DONE)

    async def _cancel(self, queue: str, job_ids: Sequence[JobId]) -> list[JobId]:
        """Cancel jobs; returns those that the store does not know."""
        states = await self.store.cancel(queue, job_ids) if job_ids else []
        left: list[JobId] = []
        for key, state in zip(job_ids, states, strict=True):
            if state is None:
                left.append(key)
            elif self._states.get(key) not in _HIT:
                self._states[key] = state
        return left
