"""Listing jobs: the states to list, and the jobs that match."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

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
    store: Store, queue: str, job_ids: Sequence[JobId]
) -> AsyncGenerator[tuple[JobId, JobSnapshot], None]:
    """Snapshots of these jobs, with bodies; jobs that are gone are left out."""
    for start in range(0, len(job_ids), READ_TOGETHER):
        batch = job_ids[start : start + READ_TOGETHER]
        snapshots = await store.get(queue, batch, bodies=True)
        for key, snapshot in zip(batch, snapshots, strict=True):
            if snapshot is not None:
                yield key, snapshot


async def read_matching(
    store: Store, states: Sequence[State], matcher: JobMatcher, stop: Stop, size: int
) -> ScannedJobs[JobSummary]:
    """The next jobs of a listing; None for each that is in another state or does not match."""
    if stop.state in ENDED:
        return await _read_ended(store, matcher, stop, size)
    page = await store.browse(stop.queue, stop.state, stop.cursor, size)
    likely = [key for key in page.job_ids if matcher.may_match(key)]
    found = {
        key: JobSummary.of(stop.queue, key, seen, matcher.search.redaction)
        async for key, seen in snapshots(store, stop.queue, likely)
        if seen.state in states and matcher.matches(key, seen)
    }
    return ScannedJobs([found.get(key) for key in page.job_ids], page.cursor)


async def _read_ended(
    store: Store, matcher: JobMatcher, stop: Stop, size: int
) -> ScannedJobs[JobSummary]:
    page = await store.history(stop.queue, stop.cursor, size, state=stop.state)
    redaction = matcher.search.redaction
    found: list[JobSummary | None] = []
    for job in page.jobs:
        seen = ended_snapshot(job)
        matches = matcher.may_match(job.job_id) and matcher.matches(job.job_id, seen)
        summary = JobSummary.of(stop.queue, job.job_id, seen, redaction) if matches else None
        found.append(summary)
    return ScannedJobs(found, page.cursor)
