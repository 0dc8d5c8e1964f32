"""Which jobs are meant, and looking at them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from headrace.admin.bodies import opened, sent_at
from headrace.admin.jobs.summary import JobSummary
from headrace.admin.moments import EVER_MS, Moment, between_ms
from headrace.admin.pages import ScannedJobs, Stop
from headrace.admin.redaction import CLEAR, Redaction
from headrace.admin.search import Search
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.ids import JobKey
from headrace.core.job.state import State
from headrace.errors import ConfigError
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

LIVE = (State.RUNNING, State.WAITING, State.BLOCKED, State.SCHEDULED)
# Envelopes come along, and each may have megabytes.
LOOKED_AT_TOGETHER = 100


class JobConditions(TypedDict, total=False):
    """What must be true of jobs that are meant; nothing said is nothing asked."""

    task: str | None
    flow: str | None
    """The id of a flow's last job, for all jobs of that flow."""
    search: str | None
    """A text in the id, the arguments or an error, in small letters or capitals."""
    arguments: bool
    """Whether `search` looks into arguments; True unless said."""
    since: Moment | None
    """A moment after which they were sent, or how long ago at most."""
    until: Moment | None
    """A moment before which they were sent, or how long ago at least."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Conditions on what a job's bytes say."""

    search: Search
    task: str | None = None
    flow: JobKey = b""
    since_ms: int = 0
    until_ms: int = EVER_MS

    @classmethod
    async def of(
        cls,
        store: Store,
        task: str | None = None,
        flow: str | None = None,
        search: str | None = None,
        arguments: bool = True,
        since: Moment | None = None,
        until: Moment | None = None,
        redaction: Redaction = CLEAR,
    ) -> JobFilter:
        """From what a caller said."""
        key = b"" if flow is None else ids.to_key(flow)
        times = await between_ms(store, since, until)
        text = Search.of(search, arguments=arguments, redaction=redaction)
        return cls(text, task, key, *times)

    @property
    def is_open(self) -> bool:
        """Whether every job fits, so that none has to be looked at."""
        return self == JobFilter(replace(self.search, text=""))

    def may_match(self, key: JobKey) -> bool:
        """Whether the key alone does not tell that the job was sent at another time."""
        made_ms = ids.created_ms(key)
        return made_ms is None or self.since_ms <= made_ms < self.until_ms

    def matches(self, key: JobKey, snapshot: JobSnapshot) -> bool:
        if self.is_open:
            return True
        envelope = opened(snapshot.envelope)
        return (
            self._in_time(key, envelope)
            and (self.task is None or (envelope is not None and envelope.task == self.task))
            and (not self.flow or self._of_flow(key, envelope))
            and self.search.finds(key, envelope, snapshot.history)
        )

    def _in_time(self, key: JobKey, envelope: Envelope | None) -> bool:
        if not self.since_ms and self.until_ms == EVER_MS:
            return True
        sent = sent_at(key, envelope)
        return sent is not None and self.since_ms <= sent.timestamp() * 1000 < self.until_ms

    def _of_flow(self, key: JobKey, envelope: Envelope | None) -> bool:
        return key == self.flow or (envelope is not None and envelope.overrides.flow == self.flow)


def states_meant(state: State | str | None, *, dead: bool) -> tuple[State, ...]:
    """The states to look through; `dead` says whether dead jobs may be asked for."""
    if state is None:
        return LIVE
    try:
        wanted = State(state)
    except ValueError:
        names = ", ".join(State)
        raise ConfigError(f"there is no state {str(state)!r}; there are {names}") from None
    if wanted in (State.DONE, State.CANCELLED):
        raise ConfigError(
            f"{wanted} jobs cannot be listed: their results are kept for a while, by id"
        )
    if wanted is State.DEAD and not dead:
        raise ConfigError("dead jobs have ended: replay() sends them again, purge() forgets them")
    return (wanted,)


async def sighted(
    store: Store, queue: str, keys: Sequence[JobKey]
) -> AsyncGenerator[tuple[JobKey, JobSnapshot], None]:
    """What is known of these jobs, bodies included, without those that are gone."""
    for start in range(0, len(keys), LOOKED_AT_TOGETHER):
        batch = keys[start : start + LOOKED_AT_TOGETHER]
        snapshots = await store.get(queue, batch, bodies=True)
        for key, snapshot in zip(batch, snapshots, strict=True):
            if snapshot is not None:
                yield key, snapshot


async def fitting(
    store: Store, states: Sequence[State], wanted: JobFilter, stop: Stop, size: int
) -> ScannedJobs[JobSummary]:
    """The next jobs of a listing, as far as they are in these states and fit."""
    page = await store.browse(stop.queue, stop.state, stop.cursor, size)
    likely = [key for key in page.keys if wanted.may_match(key)]
    found = {
        key: JobSummary.of(stop.queue, key, seen, wanted.search.redaction)
        async for key, seen in sighted(store, stop.queue, likely)
        if seen.state in states and wanted.matches(key, seen)
    }
    return ScannedJobs([found.get(key) for key in page.keys], page.cursor)
