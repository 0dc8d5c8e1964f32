"""Which jobs a filter means, found out from the bytes that a store has of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from headrace.admin.bodies import arguments_of, opened, sent_at, task_of
from headrace.admin.dead.error_place import last_place
from headrace.admin.filters import JobFilter, Moment
from headrace.admin.redaction import CLEAR, Redaction
from headrace.client.attempts import AttemptInfo
from headrace.core.clock import epoch_ms, epoch_ms_before
from headrace.core.job import ids
from headrace.core.job.constraints import decode_constraints
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import all_attempts, decode_history
from headrace.core.job.ids import JobId
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.errors import ConfigError
from headrace.store.contract import DeadJob, JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

_RANDOM = re.compile(r"(0x)?[0-9a-f-]{32,}")
_BEGINNING = 8
# A page examines a thousand jobs: larger arguments are not searched.
_MOST_SEARCHED = 256 * 1024
_SIGNS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


@dataclass(frozen=True, slots=True)
class Search:
    """Finds a text in the id, the errors and, with `arguments`, the arguments of a job, ignoring
    case; an empty text is found in all. In a random id it must be at the beginning: otherwise a
    search for any number would find some."""

    text: str = ""
    arguments: bool = True
    redaction: Redaction = CLEAR
    """A search must not reveal what this hides."""

    @classmethod
    def of(
        cls, text: str | None, *, arguments: bool = True, redaction: Redaction = CLEAR
    ) -> Search:
        return cls((text or "").casefold(), arguments and not redaction.active, redaction)

    def finds(self, job_id: JobId, envelope: Envelope | None, history: bytes) -> bool:
        return (
            not self.text
            or self._names(ids.to_text(job_id).casefold())
            or (
                any(self.text in text.casefold() for text in self._texts(envelope, history))
                and self._may_be_seen(envelope, history)
            )
        )

    def _may_be_seen(self, envelope: Envelope | None, history: bytes) -> bool:
        """Whether the text is also in what redaction leaves."""
        if not self.redaction.active:
            return True
        masks = self.redaction.masks(envelope)
        texts = (masks.text(text) for text in self._texts(envelope, history))
        return any(self.text in text.casefold() for text in texts)

    def _names(self, id: str) -> bool:
        if _RANDOM.fullmatch(id):
            return id == self.text or (len(self.text) >= _BEGINNING and id.startswith(self.text))
        return self.text in id

    def _texts(self, envelope: Envelope | None, history: bytes) -> Iterable[str]:
        """The texts to search, cheap ones first."""
        for attempt in all_attempts(decode_history(history)):
            yield AttemptInfo.of(attempt).error
        if self.arguments and envelope is not None:
            written = _written(arguments_of(envelope, _MOST_SEARCHED))
            yield _ESCAPE.sub(_unescaped, written) if "\\" in written else written
            if "\\" in self.text:
                # As pages show it: it may have been copied from there.
                yield written


def _written(value: Any) -> str:
    """The value as JSON on one line; empty if it cannot be written so."""
    try:
        return json.dumps(value, ensure_ascii=False, skipkeys=True, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return list(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return _SIGNS.get(code, code) if len(code) == 1 else chr(int(code[1:], 16))


_EVER_MS = 2**63
_ANYTHING = Search()


@dataclass(frozen=True, slots=True)
class JobMatcher:
    """A filter, with its times by the store's clock. Matches all jobs by default. Queue and state
    are up to the caller."""

    search: Search = _ANYTHING
    task: str | None = None
    tag: str = ""
    flow: JobId = b""
    reason: str | None = None
    error: str = ""
    error_type: str = ""
    place: str = ""
    since_ms: int = 0
    until_ms: int = _EVER_MS

    @classmethod
    async def of(cls, store: Store, wanted: JobFilter, redaction: Redaction = CLEAR) -> JobMatcher:
        """`redaction` limits what is searched."""
        return cls(
            search=Search.of(wanted.search, arguments=wanted.arguments, redaction=redaction),
            task=wanted.task,
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
            and (self.task is None or self.task == _task_in(seen, envelope))
            and self._is_tagged(envelope)
            and (not self.flow or self._of_flow(job_id, envelope))
            and self.search.finds(job_id, envelope, seen.history)
        )

    def matches_dead(self, job: DeadJob) -> bool:
        """Whether a dead job matches; times are when it died."""
        return (
            self.since_ms <= job.died_ms < self.until_ms
            and self.reason in (None, job.reason)
            and (self.task is None or task_of(job.envelope) == self.task)
            and (not self.tag or self._is_tagged(opened(job.envelope)))
            and (not self.error or self._has_error(job))
            and (not (self.error_type or self.place) or self._is_of_group(job))
            and (not self.search.text or self._found(job))
        )

    def _is_tagged(self, envelope: Envelope | None) -> bool:
        return not self.tag or (envelope is not None and self.tag in envelope.overrides.tags)

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
        """Whether it failed with this type of error, at this place in the code."""
        attempts = decode_history(job.history).attempts
        return (
            bool(attempts)
            and self.error_type in ("", attempts[-1].error_type)
            and self.place in ("", last_place(attempts))
        )

    def _has_error(self, job: DeadJob) -> bool:
        """Whether the text is in the last error, redacted."""
        attempts = decode_history(job.history).attempts
        error = AttemptInfo.of(attempts[-1]).error if attempts else ""
        if self.error not in error.casefold():
            return False
        masks = dead_masks(job, self.search.redaction)
        return self.error in masks.text(error).casefold()


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
