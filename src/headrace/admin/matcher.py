"""Which jobs a filter means, found out from the bytes that a store has of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.admin.app import AdminApp, names_of
from headrace.admin.bodies import opened, sent_at, task_of
from headrace.admin.dead.error_place import last_place, place_of
from headrace.admin.filters import JobFilter, Moment
from headrace.admin.redaction import CLEAR, Redaction, masked_attempts, masked_tags
from headrace.admin.search import Search
from headrace.client.attempts import AttemptInfo
from headrace.core.clock import epoch_ms, epoch_ms_before
from headrace.core.job import ids
from headrace.core.job.constraints import decode_constraints
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import shown_history
from headrace.core.job.ids import JobId
from headrace.core.masking import ALL_HIDDEN, HIDDEN, NOTHING_HIDDEN, Masks
from headrace.errors import ConfigError
from headrace.store.contract import DeadJob, JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

_EVER_MS = 2**63
_ANYTHING = Search()


@dataclass(frozen=True, slots=True)
class JobMatcher:
    """A filter, with its times by the store's clock. Matches all jobs by default. Queue and state
    are up to the caller."""

    search: Search = _ANYTHING
    tasks: tuple[str, ...] = ()
    """The names of a task; empty for all tasks."""
    tag: str = ""
    flow: JobId = b""
    reason: str | None = None
    error: str = ""
    error_type: str = ""
    place: str = ""
    since_ms: int = 0
    until_ms: int = _EVER_MS

    @classmethod
    async def of(
        cls,
        store: Store,
        wanted: JobFilter,
        redaction: Redaction = CLEAR,
        app: AdminApp | None = None,
    ) -> JobMatcher:
        """`redaction` limits what is searched; `app` knows the names of arguments."""
        return cls(
            search=Search.of(
                wanted.search, arguments=wanted.arguments, redaction=redaction, app=app
            ),
            tasks=names_of(app, wanted.task),
            tag=wanted.tag or "",
            flow=b"" if wanted.flow is None else ids.to_id(wanted.flow),
            reason=wanted.reason,
            error=(wanted.error or "").casefold(),
            error_type=wanted.error_type or "",
            place=wanted.place or "",
            since_ms=await _since_ms(store, wanted.since),
            until_ms=await _until_ms(store, wanted.until),
        )

    @property
    def is_open(self) -> bool:
        """Whether every job matches, so that none has to be read."""
        return self == JobMatcher(replace(self.search, text=""))

    def may_match(self, job_id: JobId) -> bool:
        """False if the id alone shows that the job was sent at another time."""
        made_ms = ids.created_ms(job_id)
        return made_ms is None or self.since_ms <= made_ms < self.until_ms

    def matches(self, job_id: JobId, seen: JobSnapshot) -> bool:
        """Whether a job matches; times are when it was sent."""
        if self.is_open:
            return True
        envelope = opened(seen.envelope)
        return (
            self._in_time(job_id, envelope)
            and (not self.tasks or _task_in(seen, envelope) in self.tasks)
            and (not self.tag or self._is_tagged(envelope, seen.constraints))
            and (not self.flow or self._of_flow(job_id, envelope))
            and self.search.finds(job_id, envelope, seen.history)
        )

    def matches_dead(self, job: DeadJob) -> bool:
        """Whether a dead job matches; times are when it died."""
        return (
            self.since_ms <= job.died_ms < self.until_ms
            and self.reason in (None, job.reason)
            and (not self.tasks or task_of(job.envelope) in self.tasks)
            and (not self.tag or self._is_tagged(opened(job.envelope), job.constraints))
            and (not self.error or self._has_error(job))
            and (not (self.error_type or self.place) or self._is_of_group(job))
            and (not self.search.text or self._found(job))
        )

    def _is_tagged(self, envelope: Envelope | None, constraints: bytes) -> bool:
        """Whether one of its tags, redacted, is the one that is wanted."""
        if envelope is None or not _may_be_shown(self.tag, envelope.overrides.tags):
            return False
        redaction = self.search.redaction
        masks = NOTHING_HIDDEN
        if redaction.active:
            masks = redaction.masks(envelope, decode_constraints(constraints))
        return self.tag in masked_tags(envelope, masks)

    def _found(self, job: DeadJob) -> bool:
        return self.search.finds(job.job_id, opened(job.envelope), job.history)

    def ends_with(self, jobs: Sequence[DeadJob]) -> bool:
        """Whether pages after this one, whose jobs died earlier, can hold no match."""
        return not jobs or jobs[-1].died_ms < self.since_ms

    def _in_time(self, job_id: JobId, envelope: Envelope | None) -> bool:
        if not self.since_ms and self.until_ms == _EVER_MS:
            return True
        sent = sent_at(job_id, envelope)
        return sent is not None and self.since_ms <= sent.timestamp() * 1000 < self.until_ms

    def _of_flow(self, job_id: JobId, envelope: Envelope | None) -> bool:
        return job_id == self.flow or (
            envelope is not None and envelope.overrides.flow == self.flow
        )

    def _is_of_group(self, job: DeadJob) -> bool:
        """Whether it failed with this type of error, at this place in the code, redacted."""
        attempts = shown_history(job.history).attempts
        if not attempts:
            return False
        last = AttemptInfo.of(attempts[-1])
        wanted = ((self.error_type, last.error_type), (self.place, last_place(attempts)))
        if not all(_may_be_shown(text, (found,)) for text, found in wanted if text):
            return False
        (last,) = masked_attempts([last], dead_masks(job, self.search.redaction))
        return self.error_type in ("", last.error_type) and self.place in (
            "",
            place_of(last.traceback),
        )

    def _has_error(self, job: DeadJob) -> bool:
        """Whether the text is in the last error, redacted."""
        attempts = shown_history(job.history).attempts
        error = AttemptInfo.of(attempts[-1]).error if attempts else ""
        if self.error not in error.casefold():
            return False
        masks = dead_masks(job, self.search.redaction)
        return self.error in masks.text(error).casefold()


def _may_be_shown(text: str, found: Sequence[str]) -> bool:
    """Whether the text may be what is shown of one of these. Cheap: masks take decoded
    arguments."""
    return text in found or HIDDEN in text or text == ALL_HIDDEN


def _task_in(seen: JobSnapshot, envelope: Envelope | None) -> str | None:
    """The task of a job; the history knows it even without the envelope."""
    if envelope is None:
        return None if seen.ended is None else seen.ended.task
    return envelope.task


def dead_masks(job: DeadJob, redaction: Redaction) -> Masks:
    """What is hidden of a dead job."""
    if not redaction.active:
        return NOTHING_HIDDEN
    return redaction.masks(opened(job.envelope), decode_constraints(job.constraints))


async def _since_ms(store: Store, since: Moment | None) -> int:
    return 0 if since is None else await _moment_ms(store, "since", since, epoch_ms_before)


async def _until_ms(store: Store, until: Moment | None) -> int:
    return _EVER_MS if until is None else await _moment_ms(store, "until", until, epoch_ms)


async def _moment_ms(
    store: Store, what: str, moment: Moment, rounded: Callable[[str, object], int]
) -> int:
    if isinstance(moment, timedelta):
        return await store.time_ms() - int(moment.total_seconds() * 1000)
    if getattr(moment, "tzinfo", None) is None:
        raise ConfigError(
            f"{what} must be a datetime with a time zone, or a timedelta, not {moment!r}"
        )
    return rounded(what, moment)
