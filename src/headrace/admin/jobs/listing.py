"""Listing jobs: the states to list, and the jobs that match."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from headrace.admin.bodies import allowance_is_spent, pause_between_jobs, together
from headrace.admin.jobs.summary import JobSummary
from headrace.admin.matcher import JobMatcher
from headrace.admin.pages import ScannedJobs, Stop
from headrace.core.job.ids import JobId
from headrace.core.job.state import ENDED, LIVE, State
from headrace.errors import ConfigError
from headrace.store.contract import JobSnapshot, ended_snapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

# Envelopes come along, and each may have megabytes.
READ_TOGETHER = 100
# What the history keeps of an envelope is short.
ENDED_TOGETHER = 1000


def states_meant(state: State | str | None, *, final: bool) -> tuple[State, ...]:
    """The states to list; `final` says whether jobs that have ended may be asked for."""
    if state is None:
        return LIVE
    try:
        wanted = State(state)
    except ValueError:
        names = ", ".join(State)
        raise ConfigError(f"there is no state {str(state)!r}; there are {names}") from None
    if wanted in ENDED and not final:
        raise ConfigError(f"{wanted} jobs have ended: forget() deletes what is kept of them")
    if wanted is State.DEAD and not final:
        raise ConfigError("dead jobs have ended: replay() sends them again, purge() forgets them")
    return (wanted,)


async def snapshots(
    store: Store, queue: str, job_ids: Sequence[JobId], largest: dict[str, int] | None = None
) -> AsyncGenerator[tuple[JobId, JobSnapshot], None]:
    """Snapshots of these jobs, with bodies; jobs that are gone are left out. `largest` has the
    bytes of the largest job so far of each queue."""
    largest = {} if largest is None else largest
    start = 0
    while start < len(job_ids):
        batch = job_ids[start : start + together(READ_TOGETHER, largest.get(queue, 0))]
        start += len(batch)
        snapshots = await store.get(queue, batch, bodies=True)
        for key, snapshot in zip(batch, snapshots, strict=True):
            if snapshot is not None:
                size = len(snapshot.envelope) + len(snapshot.history)
                largest[queue] = max(largest.get(queue, 1), size)
                yield key, snapshot


class MatchingJobs:
    """Reads the jobs of a listing; None for each that is in another state or does not match."""

    def __init__(self, store: Store, states: Sequence[State], matcher: JobMatcher) -> None:
        self._store = store
        self._states = states
        self._matcher = matcher
        self._examined: dict[JobId, JobSummary | None] = {}
        """Those of the last reading."""
        self._largest: dict[str, int] = {}

    async def read(self, stop: Stop, size: int, again: bool) -> ScannedJobs[JobSummary]:
        """Up to `size` jobs from a stop on, fewer if they take more bytes than may be decoded;
        `again` for a part of the last reading, which is not examined a second time."""
        if not again:
            self._examined = {}
        read = self._read_ended if stop.state in ENDED else self._read_live
        return await read(stop, size)

    async def _read_live(self, stop: Stop, size: int) -> ScannedJobs[JobSummary]:
        page = await self._store.browse(stop.queue, stop.state, stop.cursor, size)
        found = self._examined
        likely = [key for key in page.job_ids if key not in found and self._matcher.may_match(key)]
        async with aclosing(snapshots(self._store, stop.queue, likely, self._largest)) as seen_ones:
            async for key, seen in seen_ones:
                if found and allowance_is_spent():
                    before = page.job_ids[: page.job_ids.index(key)]
                    return ScannedJobs([found.get(each) for each in before], "", is_cut=True)
                matches = seen.state in self._states and self._matcher.matches(key, seen)
                found[key] = self._summary(stop, key, seen) if matches else None
                await pause_between_jobs()
        return ScannedJobs([found.get(key) for key in page.job_ids], page.cursor)

    async def _read_ended(self, stop: Stop, size: int) -> ScannedJobs[JobSummary]:
        page = await self._store.history(stop.queue, stop.cursor, size, state=stop.state)
        found, jobs = self._examined, list[JobSummary | None]()
        for job in page.jobs:
            key = job.job_id
            if key not in found:
                if found and allowance_is_spent():
                    return ScannedJobs(jobs, "", is_cut=True)
                seen = ended_snapshot(job)
                matches = self._matcher.may_match(key) and self._matcher.matches(key, seen)
                found[key] = self._summary(stop, key, seen) if matches else None
                await pause_between_jobs()
            jobs.append(found[key])
        return ScannedJobs(jobs, page.cursor)

    def _summary(self, stop: Stop, key: JobId, seen: JobSnapshot) -> JobSummary:
        return JobSummary.of(stop.queue, key, seen, self._matcher.search.redaction)
