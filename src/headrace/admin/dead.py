"""Dead jobs: what is known of one, and which of them are meant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.client.job import AttemptInfo, to_datetime
from headrace.core import codec, ids
from headrace.core.job import decode_envelope, decode_past
from headrace.errors import ConfigError, HeadraceError
from headrace.store.contract import DeadJob

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from headrace.store.contract import Store

# Envelopes come along, and each may have megabytes.
PAGE = 100
# Decoded values take many times the room of their bytes: larger ones are not for showing.
_MOST_SHOWN = 16 * 1024 * 1024

_decode_plain = codec.decoder(Any)


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
    """The bytes that the job came in."""

    @classmethod
    def of(cls, queue: str, job: DeadJob) -> DeadInfo:
        past = decode_past(job.past)
        return cls(
            id=ids.to_text(job.key),
            queue=queue,
            task=task_of(job.envelope),
            reason=job.reason,
            died=to_datetime(job.died_ms),
            attempts=tuple(AttemptInfo.of(attempt) for attempt in past.attempts),
            envelope=job.envelope,
        )

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
        try:
            payload = decode_envelope(self.envelope).payload
            return _decode_plain(payload) if len(payload) <= _MOST_SHOWN else None
        except (HeadraceError, *codec.DECODE_ERRORS):
            return None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead jobs are meant; all of them if nothing is said."""

    reason: str | None = None
    task: str | None = None
    since_ms: int = 0

    def matches(self, job: DeadJob) -> bool:
        return (
            job.died_ms >= self.since_ms
            and self.reason in (None, job.reason)
            and (self.task is None or task_of(job.envelope) == self.task)
        )

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


async def since_ms(store: Store, since: datetime | timedelta | None) -> int:
    """A moment by the store's clock, which is the one that dated the deaths."""
    if since is None:
        return 0
    if isinstance(since, timedelta):
        return await store.time_ms() - int(since.total_seconds() * 1000)
    if getattr(since, "tzinfo", None) is None:
        raise ConfigError(
            f"since must be a datetime with a time zone, or a timedelta, not {since!r}"
        )
    return int(since.timestamp() * 1000)


def task_of(envelope: bytes) -> str | None:
    try:
        return decode_envelope(envelope).task
    except HeadraceError:
        return None
