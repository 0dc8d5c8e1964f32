"""What is known of a dead job, and reading those that match."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.admin.bodies import MOST_LISTED, MOST_SHOWN, arguments_of, opened, task_of
from headrace.admin.jobs.cause import JobCause, error_without_a_run
from headrace.admin.matcher import JobMatcher, dead_masks
from headrace.admin.redaction import CLEAR, Redaction, masked_attempts, masked_tags
from headrace.admin.topics.event_info import EventInfo, event_in
from headrace.client.attempts import AttemptInfo, ReplayInfo, replays_of
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, is_newer
from headrace.core.job.history import is_readable_history, shown_attempts
from headrace.core.masking import Masks
from headrace.store.contract import UNREADABLE, DeadJob

if TYPE_CHECKING:
    from headrace.store.contract import Store

# Envelopes come along, and each may have megabytes.
PAGE = 100


@dataclass(frozen=True, slots=True)
class DeadInfo:
    """A job that was given up. `task` is None if its envelope cannot be read."""

    id: str
    """The id of the job."""
    queue: str
    """The queue, or the queue of the group."""
    task: str | None
    """The task's name; None if its envelope cannot be read."""
    reason: str
    """Why it is dead; one of `Reason`."""
    died: datetime
    """By the store's clock."""
    attempts: tuple[AttemptInfo, ...]
    """Every run; of very many the last, behind one that says so."""
    envelope: bytes
    """The bytes of the job; empty with a redact hook."""
    unreadable: tuple[str, ...] = ()
    """Which parts cannot be read by any version: `reason`, `history`, `envelope`."""
    replays: tuple[ReplayInfo, ...] = ()
    """When it was dead before and sent again, and by whom."""
    received: tuple[Any, ...] | None = None
    """As in `JobDetail`; only of a single one (`dead_job`)."""
    newer_format: bool = False
    """Whether a newer version of Headrace sent it, in a format that this one cannot read: once it
    is replayed, a worker of that version runs it."""
    cause: JobCause | None = None
    """The job that failed first, if this one is dead because it waited for it and the store still
    knows; not in `latest_dead`."""
    attempt_count: int = 0
    """How many runs there were."""

    @classmethod
    def of(
        cls,
        queue: str,
        job: DeadJob,
        redaction: Redaction = CLEAR,
        received: tuple[Any, ...] | None = None,
        cause: JobCause | None = None,
    ) -> DeadInfo:
        attempts, count = shown_attempts(job.history)
        masks = dead_masks(job, redaction)
        kind = RedactedDead if redaction.active else cls
        info = kind(
            id=ids.to_text(job.job_id),
            queue=queue,
            task=task_of(job.envelope),
            reason=job.reason,
            died=to_datetime(job.died_ms),
            attempts=masked_attempts(list(map(AttemptInfo.of, attempts)), masks),
            envelope=b"" if redaction.active else job.envelope,
            unreadable=_unreadable(job),
            replays=replays_of(job.history),
            received=received,
            newer_format=is_newer(job.envelope),
            cause=cause,
            attempt_count=count,
        )
        if isinstance(info, RedactedDead):
            info.keep(job.envelope, redaction, masks)
        return info

    @property
    def death_count(self) -> int:
        """How often it died, before replays too."""
        return len(self.replays) + 1

    @property
    def tags(self) -> tuple[str, ...]:
        """The `tags` it was sent with."""
        envelope = self.opened
        return envelope.overrides.tags if envelope else ()

    @property
    def error(self) -> str:
        """Type and text of the error of the last attempt; of a job that died with another, which
        that is; empty if nothing is known."""
        return self._died_with or (self.attempts[-1].error if self.attempts else "")

    @property
    def error_type(self) -> str:
        """Of the last attempt; empty if there was none, or if it died with another."""
        return self.attempts[-1].error_type if self.attempts and not self._died_with else ""

    @property
    def error_text(self) -> str:
        """Of the last attempt; of a job that died with another, which that is; empty if nothing is
        known."""
        return self._died_with or (self.attempts[-1].error_text if self.attempts else "")

    @property
    def _died_with(self) -> str:
        return error_without_a_run(self.reason, self.cause)

    @property
    def arguments(self) -> Any:
        """The arguments as plain values, for showing; None if they cannot be read, a
        `TooLargeToShow` if they take more than 2 MiB. Decoded on each access, so that lists cost
        little."""
        return self._arguments_up_to(MOST_SHOWN)

    @property
    def listed_arguments(self) -> Any:
        """`arguments` for a list: of no more than 64 KiB."""
        return self._arguments_up_to(MOST_LISTED)

    def _arguments_up_to(self, most: int) -> Any:
        return arguments_of(self.opened, most)

    @property
    def event(self) -> EventInfo | None:
        """What its envelope says, if it is an event that a group has given up."""
        return event_in(ids.to_id(self.id), self.opened)

    @property
    def plain_arguments(self) -> Any:
        """The arguments without redaction, for acting on the job."""
        return arguments_of(self.opened)

    @property
    def lacks_first_argument(self) -> bool:
        """Whether its first argument comes from the jobs before it, so that `arguments` lack it."""
        return self.opened is not None and bool(self.opened.overrides.feed)

    @property
    def size(self) -> int:
        """Of its envelope, in bytes."""
        return len(self.envelope)

    @property
    def opened(self) -> Envelope | None:
        """The envelope, for acting on the job, not for showing."""
        return opened(self.envelope)


class RedactedDead(DeadInfo):
    """A dead job with redaction: its bytes are kept out of sight."""

    def keep(self, envelope: bytes, redaction: Redaction, masks: Masks) -> None:
        object.__setattr__(self, "_kept", (envelope, redaction, masks))

    def _arguments_up_to(self, most: int) -> Any:
        return self._redaction.arguments(self.opened, most)

    @property
    def event(self) -> EventInfo | None:
        return event_in(ids.to_id(self.id), self.opened, self._redaction)

    @property
    def size(self) -> int:
        return len(self._kept[0])

    @property
    def opened(self) -> Envelope | None:
        return opened(self._kept[0])

    @property
    def tags(self) -> tuple[str, ...]:
        return masked_tags(self.opened, self._kept[2])

    @property
    def _redaction(self) -> Redaction:
        return self._kept[1]

    _kept: tuple[bytes, Redaction, Masks]


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead jobs."""

    jobs: list[DeadInfo]
    """The dead jobs on it."""
    cursor: str
    """Where the next page begins; empty after the last."""
    looked: int
    """How many dead jobs were examined to find these."""
    total: int = 0
    """How many there are in the queue, or in all, whatever the conditions."""


async def matching(
    store: Store, queue: str, matcher: JobMatcher, page_size: int = PAGE
) -> AsyncGenerator[list[DeadJob], None]:
    """Pages of the dead jobs that match, the latest first. Jobs that die meanwhile are left out, so
    that acting on them comes to an end."""
    cursor = ""
    while True:
        page = await store.dead(queue, cursor, page_size)
        yield [job for job in page.jobs if matcher.matches_dead(job)]
        if not page.cursor or matcher.ends_with(page.jobs):
            return
        cursor = page.cursor


def _unreadable(job: DeadJob) -> tuple[str, ...]:
    parts = {
        "reason": job.reason == UNREADABLE,
        "history": not is_readable_history(job.history),
        "envelope": opened(job.envelope) is None and not is_newer(job.envelope),
    }
    return tuple(name for name, is_odd in parts.items() if is_odd)
