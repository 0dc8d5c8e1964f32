"""Filters of jobs: one value for code, the command line and the dashboard, and its description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from headrace.core.display import plural
from headrace.core.job.state import State

Moment = datetime | timedelta
"""A moment, with a time zone; or how long ago."""

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_DAY = timedelta(days=1)


class _Conditions(TypedDict, total=False):
    task: str | None
    """Jobs of this task."""
    tag: str | None
    """One of the tags that the job was sent with."""
    search: str | None
    """A text in the id, the arguments or an error; case does not matter. `order=o-17` also finds
    jobs whose argument `order` is that value."""
    arguments: bool
    """Whether `search` looks into arguments; True by default."""
    since: Moment | None
    """Sent, or died, at this moment or later; with a `timedelta`, at most so long ago."""
    until: Moment | None
    """Sent, or died, before this moment; with a `timedelta`, longer ago than that."""


class JobConditions(_Conditions, total=False):
    """Conditions on jobs that have not ended. Each that is given must hold."""

    flow: str | None
    """The id of a flow's last job, for all jobs of that flow."""


class DeadConditions(_Conditions, total=False):
    """Conditions on dead jobs. Each that is given must hold."""

    reason: str | None
    """Jobs that are dead for this reason, such as "retries_exhausted"."""
    error: str | None
    """A text in the type or the text of the last error; case does not matter."""
    error_type: str | None
    """The type of the last error, in full."""
    place: str | None
    """Where the code raised it, as `DeadGroup.place` says it."""


EVER = datetime.fromtimestamp(0, UTC)
"""As `since`, it leaves out nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter of jobs. A field that is None, or an empty text, excludes nothing."""

    queue: str | None = None
    """A queue, or a group such as `billing@orders`."""
    state: State | str | None = None
    """A state."""
    reason: str | None = None
    """Why a job is dead."""
    task: str | None = None
    """The name of a task."""
    tag: str | None = None
    """One of the tags that a job was sent with."""
    flow: str | None = None
    """The id of a flow's last job, for all jobs of that flow."""
    error: str | None = None
    """A text in the type or the text of the last error; case does not matter."""
    error_type: str | None = None
    """The type of the last error, in full."""
    place: str | None = None
    """Where the code raised it, as `DeadGroup.place` says it."""
    search: str | None = None
    """A text in the id, the arguments or an error; case does not matter."""
    arguments: bool = True
    """Whether `search` looks into arguments."""
    since: Moment | None = None
    """Sent, or died, at this moment or later; with a `timedelta`, at most so long ago."""
    until: Moment | None = None
    """Sent, or died, before this moment; with a `timedelta`, longer ago than that."""

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return self.queue is not None or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether there is a condition besides the queue."""
        said = (
            *(self.reason, self.task, self.tag, self.flow, self.error, self.error_type),
            *(self.place, self.search, self.since, self.until),
        )
        return self.state is not None or any(value not in (None, "") for value in said)

    @property
    def for_jobs(self) -> JobConditions:
        """What `admin.jobs` and `admin.cancel` take besides the queue and the state."""
        return JobConditions(**self._conditions, flow=self.flow)

    @property
    def for_dead(self) -> DeadConditions:
        """What `admin.dead`, `admin.replay` and `admin.purge` take besides the queue."""
        return DeadConditions(
            **self._conditions,
            reason=self.reason,
            error=self.error,
            error_type=self.error_type,
            place=self.place,
        )

    @property
    def _conditions(self) -> _Conditions:
        found = _Conditions(task=self.task, search=self.search, since=self.since, until=self.until)
        if self.tag:
            found["tag"] = self.tag
        # Left out by default: arguments that are given are recorded.
        return found if self.arguments else {**found, "arguments": False}

    def describe_jobs(self, shown: Callable[[str], str] = str) -> str:
        """Such as "all waiting jobs of task send in queue mail that were sent in the last hour".
        Texts that people typed go through `shown`.

        Args:
            shown: Makes a text that people typed fit to be shown.
        """
        state = shown(self.state) if self.state else "unfinished"
        return self._describe(f"{state} jobs", "were sent", shown)

    def describe_dead(self, shown: Callable[[str], str] = str) -> str:
        """Such as "all dead jobs of task send in queue mail that died in the last hour".

        Args:
            shown: Makes a text that people typed fit to be shown.
        """
        return self._describe("dead jobs", "died", shown)

    def _describe(self, noun: str, happened: str, shown: Callable[[str], str]) -> str:
        when = _period(self.since, self.until)
        parts = [
            f"all {noun}",
            f"of task {shown(self.task)}" if self.task else "",
            f"tagged {shown(self.tag)}" if self.tag else "",
            f"of the flow of {shown(self.flow)}" if self.flow else "",
            f"in queue {shown(self.queue)}" if self.queue else "in all queues and groups",
            f"with the reason {shown(self.reason)}" if self.reason else "",
            f"with “{shown(self.error)}” in the error" if self.error else "",
            f"with the error {shown(self.error_type)}" if self.error_type else "",
            f"raised at {shown(self.place)}" if self.place else "",
            f"with the text “{shown(self.search)}”" if self.search else "",
            f"that {happened} {when}" if when else "",
        ]
        return " ".join(filter(None, parts))


def _period(since: Moment | None, until: Moment | None) -> str:
    bounds = []
    if isinstance(since, timedelta):
        bounds.append(f"in the last {_length(since).removeprefix('1 ')}")
    elif since is not None:
        bounds.append(f"since {_at(since)}")
    if isinstance(until, timedelta):
        bounds.append(f"more than {_length(until)} ago")
    elif until is not None:
        bounds.append(f"before {_at(until)}")
    return " and ".join(bounds)


def _at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z").rstrip()


def _length(span: timedelta) -> str:
    """In the largest unit that gives a whole number; a day is 24 hours."""
    seconds = int(span.total_seconds())
    units = _UNITS[1:] if span <= _DAY else _UNITS
    unit, size = next((each for each in units if not seconds % each[1]), _UNITS[-1])
    return plural(seconds // size, unit)
