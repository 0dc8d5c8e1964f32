"""Dead jobs: what is known of one, and which of them are meant."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from headrace.admin.bodies import EventInfo, arguments_of, event_in, opened, task_of
from headrace.admin.moments import EVER_MS, Moment, between_ms
from headrace.admin.redaction import CLEAR, Redaction, masked_attempts
from headrace.admin.search import Search
from headrace.client.job import AttemptInfo
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.constraints import decode_constraints
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import decode_history, is_readable_history
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.store.contract import UNREADABLE, DeadJob

if TYPE_CHECKING:
    from headrace.store.contract import Store

_NOTHING = Search()
# Envelopes come along, and each may have megabytes.
PAGE = 100


@dataclass(frozen=True, slots=True)
class DeadInfo:
    """A job that was given up. `task` is None if its envelope cannot be read."""

    id: str
    queue: str
    task: str | None
    reason: str
    died: datetime
    attempts: tuple[AttemptInfo, ...]
    envelope: bytes
    """The bytes that the job came in; none where a hook hides something."""
    unreadable: tuple[str, ...] = ()
    """What of it is none of ours, and cannot be shown: `reason`, `history`, `envelope`."""

    @classmethod
    def of(cls, queue: str, job: DeadJob, redaction: Redaction = CLEAR) -> DeadInfo:
        history = decode_history(job.history)
        attempts = [AttemptInfo.of(attempt) for attempt in history.attempts]
        kind = RedactedDead if redaction.active else cls
        info = kind(
            id=ids.to_text(job.key),
            queue=queue,
            task=task_of(job.envelope),
            reason=job.reason,
            died=to_datetime(job.died_ms),
            attempts=masked_attempts(attempts, _masks(job, redaction)),
            envelope=b"" if redaction.active else job.envelope,
            unreadable=_unreadable(job),
        )
        if isinstance(info, RedactedDead):
            info.keep(job.envelope, redaction)
        return info

    @property
    def error_type(self) -> str:
        """Of the last attempt; empty if there was none."""
        return self.attempts[-1].error_type if self.attempts else ""

    @property
    def error_text(self) -> str:
        """Of the last attempt; empty if there was none."""
        return self.attempts[-1].error_text if self.attempts else ""

    @property
    def arguments(self) -> Any:
        """The arguments as plain values, for showing; None if they cannot be read. Decoded anew
        each time, so that a list of jobs costs nothing for what nobody looks at."""
        return arguments_of(self.opened)

    @property
    def event(self) -> EventInfo | None:
        """What its envelope says, if it is an event that a group has given up."""
        return event_in(ids.to_key(self.id), self.opened)

    @property
    def plain_arguments(self) -> Any:
        """The arguments for those who act on the job, whatever may be shown of them."""
        return arguments_of(self.opened)

    @property
    def fed(self) -> bool:
        """Whether its first argument comes from the jobs before it, so that `arguments` lack it."""
        return self.opened is not None and bool(self.opened.overrides.feed)

    @property
    def size(self) -> int:
        """Of the bytes that it came in."""
        return len(self.envelope)

    @property
    def opened(self) -> Envelope | None:
        """For those who act on the job, not for showing."""
        return opened(self.envelope)


class RedactedDead(DeadInfo):
    """A dead job of which hooks hide something: its bytes are kept out of sight."""

    def keep(self, envelope: bytes, redaction: Redaction) -> None:
        object.__setattr__(self, "_kept", (envelope, redaction))

    @property
    def arguments(self) -> Any:
        return self._redaction.arguments(self.opened)

    @property
    def event(self) -> EventInfo | None:
        return event_in(ids.to_key(self.id), self.opened, self._redaction)

    @property
    def size(self) -> int:
        return len(self._kept[0])

    @property
    def opened(self) -> Envelope | None:
        return opened(self._kept[0])

    @property
    def _redaction(self) -> Redaction:
        return self._kept[1]

    _kept: tuple[bytes, Redaction]


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead jobs."""

    jobs: list[DeadInfo]
    cursor: str
    """Where the next page begins; empty after the last."""
    looked: int
    """How many dead jobs were looked at to find these."""


class DeadConditions(TypedDict, total=False):
    """What must be true of dead jobs that are meant; nothing said is nothing asked."""

    reason: str | None
    task: str | None
    error: str | None
    """A text in type or text of the last error, in small letters or capitals."""
    search: str | None
    """A text in the id, the arguments or any error, in small letters or capitals."""
    arguments: bool
    """Whether `search` looks into arguments; True unless said."""
    since: Moment | None
    """A moment after which they died, or how long ago at most."""
    until: Moment | None
    """A moment before which they died, or how long ago at least."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead jobs are meant; all of them if nothing is said."""

    reason: str | None = None
    task: str | None = None
    error: str = ""
    search: Search = _NOTHING
    since_ms: int = 0
    until_ms: int = EVER_MS

    @classmethod
    async def of(
        cls,
        store: Store,
        reason: str | None = None,
        task: str | None = None,
        error: str | None = None,
        search: str | None = None,
        arguments: bool = True,
        since: Moment | None = None,
        until: Moment | None = None,
        redaction: Redaction = CLEAR,
    ) -> Selection:
        """From what a caller said."""
        text = Search.of(search, arguments=arguments, redaction=redaction)
        times = await between_ms(store, since, until)
        return cls(reason, task, (error or "").casefold(), text, *times)

    @property
    def is_open(self) -> bool:
        """Whether every dead job fits."""
        return self == Selection(search=replace(self.search, text=""))

    def matches(self, job: DeadJob) -> bool:
        return (
            self.since_ms <= job.died_ms < self.until_ms
            and self.reason in (None, job.reason)
            and (self.task is None or task_of(job.envelope) == self.task)
            and (not self.error or self._has_error(job))
            and (
                not self.search.text
                or self.search.finds(job.key, opened(job.envelope), job.history)
            )
        )

    def _has_error(self, job: DeadJob) -> bool:
        """Whether the text is in the last error as it may be seen."""
        error = _last_error(job)
        if self.error not in error.casefold():
            return False
        masks = _masks(job, self.search.redaction)
        return self.error in masks.text(error).casefold()

    def ends_with(self, jobs: list[DeadJob]) -> bool:
        """Whether pages after this one, whose jobs died earlier, can hold no match."""
        return not jobs or jobs[-1].died_ms < self.since_ms


async def matching(
    store: Store, queue: str, selection: Selection, page_size: int = PAGE
) -> AsyncGenerator[list[DeadJob], None]:
    """Page after page of the jobs that are meant, the latest first. Jobs that die meanwhile come
    before the first page and are not seen, so acting on what is found comes to an end."""
    cursor = ""
    while True:
        page = await store.dead(queue, cursor, page_size)
        yield [job for job in page.jobs if selection.matches(job)]
        if not page.cursor or selection.ends_with(page.jobs):
            return
        cursor = page.cursor


def _masks(job: DeadJob, redaction: Redaction) -> Masks:
    if not redaction.active:
        return NOTHING_HIDDEN
    return redaction.masks(opened(job.envelope), decode_constraints(job.constraints))


def _unreadable(job: DeadJob) -> tuple[str, ...]:
    parts = {
        "reason": job.reason == UNREADABLE,
        "history": not is_readable_history(job.history),
        "envelope": opened(job.envelope) is None,
    }
    return tuple(name for name, is_odd in parts.items() if is_odd)


def _last_error(job: DeadJob) -> str:
    attempts = decode_history(job.history).attempts
    return AttemptInfo.of(attempts[-1]).error if attempts else ""
