"""What could not be stored of jobs that go in several steps, as one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.errors import (
    EnqueueUnknown,
    HeadraceError,
    KeyFull,
    OffloadError,
    QueueFull,
    StoreError,
)
from headrace.store.queue_values import REFUSED

TROUBLE = (QueueFull, EnqueueUnknown, OffloadError, StoreError)
"""Errors after which other jobs of the same sending may be stored."""


class Unsent:
    """Gathers the failures of one sending. Queues and keys that are full keep only their own jobs
    out; any other error ends the sending."""

    def __init__(self) -> None:
        self._job_ids: list[str] = []
        self._full: list[QueueFull] = []
        self._end: HeadraceError | None = None
        self._is_partial = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._end is not None

    def fail(self, error: HeadraceError, job_ids: Sequence[str]) -> None:
        """Note the failure of a step that had these jobs."""
        named = error.job_ids if isinstance(error, (QueueFull, EnqueueUnknown)) else job_ids
        self._job_ids += named
        self._is_partial |= isinstance(error, EnqueueUnknown) or len(named) < len(job_ids)
        if isinstance(error, QueueFull):
            self._full.append(error)
        else:
            self._end = self._end or error

    def skip(self, job_ids: Sequence[str]) -> None:
        """Note jobs that are not sent, because the sending has ended."""
        self._job_ids += job_ids

    def check(self, *, stored: bool) -> None:
        """Raise one error for all failures, if there are any, which names every job that is not
        known to be stored; `stored` says whether there was a step that did not fail."""
        if self._end is not None:
            raise self._ended(self._end, stored or self._is_partial)
        if self._full:
            # A full queue concerns all who send to it, a full key only its own.
            of_queue = [error for error in self._full if not isinstance(error, KeyFull)]
            chief = (of_queue or self._full)[0]
            raise chief.for_all(self._job_ids, self._full)

    def _ended(self, end: HeadraceError, is_partial: bool) -> HeadraceError:
        is_whole = isinstance(end, EnqueueUnknown) and len(end.job_ids) == len(self._job_ids)
        return end if is_whole or not is_partial else unknown(self._job_ids, end)


class Interrupted(Exception):
    """The store has answered for the first `done` parcels of a send; then an error ended it."""

    def __init__(self, done: int, answer: Mapping[int, Any], error: HeadraceError) -> None:
        super().__init__(str(error))
        self.done = done
        self.answer = answer
        self.error = error

    def error_of(self, parcels: Sequence[Parcel], start: int = 0) -> HeadraceError:
        """The error of the sender of these parcels; `start` is where the first of them was."""
        answered = range(start, min(self.done, start + len(parcels)))
        stored = {at - start for at in answered if self.answer.get(at) not in REFUSED}
        left = [parcel for at, parcel in enumerate(parcels) if at not in stored]
        is_partial = bool(stored) or isinstance(self.error, EnqueueUnknown)
        return unknown(texts(left), self.error) if is_partial else self.error


def unknown(job_ids: Sequence[str], error: HeadraceError) -> EnqueueUnknown:
    """The error for these jobs, which may be stored, or are not while others are."""
    cause = error.__cause__ if isinstance(error, EnqueueUnknown) else error
    made = EnqueueUnknown(job_ids, str(cause))
    made.__cause__ = cause
    return made


def texts(parcels: Sequence[Parcel]) -> list[str]:
    """The ids of parcels, for people."""
    return [ids.to_text(parcel.job_id) for parcel in parcels]
