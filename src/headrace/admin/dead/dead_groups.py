"""Dead jobs that failed alike: the same task, reason, error and place in the code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.admin.dead.dead_info import DeadInfo
from headrace.admin.dead.error_place import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs that failed alike. `admin.replay` and `purge` take the first four as conditions."""

    task: str | None
    """The task's name."""
    reason: str
    """Why they are dead."""
    error_type: str
    """Empty if there was no attempt."""
    place: str
    """Where the code raised it, such as `/srv/shop/bank.py:65 in ask`; empty if that is not
    known."""
    count: int
    """How many there are."""
    first: datetime
    """When the first of them died."""
    latest: datetime
    """When the latest died."""
    error: str
    """Type and text of the latest; of jobs that died with others, that they did."""
    queues: tuple[str, ...]
    """The queues that they are in."""


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """The groups of the latest dead jobs, the largest first."""

    groups: list[DeadGroup]
    """The groups."""
    looked: int
    """How many dead jobs were examined."""
    total: int
    """How many there are, whatever the conditions."""
    complete: bool
    """Whether all were examined."""

    @property
    def by_reason(self) -> dict[str, int]:
        """How many died of each reason, the most frequent first."""
        return self._counted("reason")

    @property
    def by_error(self) -> dict[str, int]:
        """How many died with each type of error, the most frequent first; without those that never
        ran."""
        return {error: count for error, count in self._counted("error_type").items() if error}

    def _counted(self, field: str) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for group in self.groups:
            counts[getattr(group, field)] += group.count
        return dict(counts.most_common())


def grouped(jobs: Iterable[DeadInfo]) -> list[DeadGroup]:
    """The groups of these jobs, which come latest first."""
    groups: dict[tuple[str | None, str, str, str], DeadGroup] = {}
    for job in jobs:
        last = job.attempts[-1] if job.attempts else None
        place = place_of(last.traceback) if last else ""
        key = (job.task, job.reason, job.error_type, place)
        known = groups.get(key)
        if known is None:
            groups[key] = DeadGroup(*key, 1, job.died, job.died, job.error, (job.queue,))
            continue
        queues = known.queues if job.queue in known.queues else (*known.queues, job.queue)
        groups[key] = replace(known, count=known.count + 1, first=job.died, queues=queues)
    return sorted(groups.values(), key=lambda group: -group.count)
