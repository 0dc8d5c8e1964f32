"""Jobs of a flow that stand alike, folded into one: a group of sixty is one box, not sixty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.job.state import State

if TYPE_CHECKING:
    from headrace.admin import FlowJobInfo

FEWEST_FOLDED = 4
"""Fewer jobs are drawn one by one."""
# Jobs that still look alike after these rounds are taken to stand alike.
_ROUNDS = 12
_MOST_URGENT = (
    *(State.DEAD, State.RUNNING, State.BLOCKED, State.SCHEDULED, State.WAITING),
    *(State.CANCELLED, State.DONE),
)


@dataclass(frozen=True, slots=True)
class FoldedJobs:
    """Jobs of one task that wait for the same jobs and that the same jobs wait for, or for and by
    such as are folded; mostly one job alone. `parents` of `job` are such that stand for a fold."""

    job: FlowJobInfo
    """The one that stands for all: the first in the state that needs most attention."""
    ids: frozenset[str]
    counts: Mapping[State | None, int]

    @property
    def text(self) -> str:
        """Such as "done", or "2 dead, 58 done"."""
        if len(self.ids) == 1:
            return _name(self.job.state)
        order = sorted(self.counts, key=_urgency)
        return ", ".join(f"{self.counts[state]:,} {_name(state)}" for state in order)


def fold(jobs: Sequence[FlowJobInfo]) -> list[FoldedJobs]:
    """The jobs, with those that stand alike as one, in the order of the first of each."""
    groups: dict[object, list[FlowJobInfo]] = {}
    for job, shape in zip(jobs, _shapes(jobs), strict=True):
        groups.setdefault(shape, []).append(job)
    folds = [
        part
        for group in groups.values()
        for part in ([group] if len(group) >= FEWEST_FOLDED else [[job] for job in group])
    ]
    chosen = [min(part, key=lambda job: _urgency(job.state)) for part in folds]
    stands_for = {job.id: chosen[at].id for at, part in enumerate(folds) for job in part}
    return [_folded(part, chosen[at], stands_for) for at, part in enumerate(folds)]


def _folded(
    part: Sequence[FlowJobInfo], job: FlowJobInfo, stands_for: Mapping[str, str]
) -> FoldedJobs:
    above = (stands_for.get(parent, parent) for each in part for parent in each.parents)
    parents = tuple(dict.fromkeys(parent for parent in above if parent != job.id))
    counts = Counter(each.state for each in part)
    return FoldedJobs(replace(job, parents=parents), frozenset(each.id for each in part), counts)


def _shapes(jobs: Sequence[FlowJobInfo]) -> list[int]:
    """A number for each job, the same for jobs that stand alike: of one task, with alike jobs
    before and behind them."""
    at = {job.id: number for number, job in enumerate(jobs)}
    before = [[at[parent] for parent in job.parents if parent in at] for job in jobs]
    behind: list[list[int]] = [[] for _ in jobs]
    for number, parents in enumerate(before):
        for parent in parents:
            behind[parent].append(number)
    shapes = _numbered([(job.task, job.queue) for job in jobs])
    for _ in range(_ROUNDS):
        refined = _numbered(
            [
                (shape, _seen(before[number], shapes), _seen(behind[number], shapes))
                for number, shape in enumerate(shapes)
            ]
        )
        if len(set(refined)) == len(set(shapes)):
            break
        shapes = refined
    return shapes


def _seen(numbers: Sequence[int], shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(shapes[number] for number in numbers))


def _numbered(values: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _urgency(state: State | None) -> int:
    return len(_MOST_URGENT) if state is None else _MOST_URGENT.index(state)


def _name(state: State | None) -> str:
    return "not known" if state is None else str(state)
