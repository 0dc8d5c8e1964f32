"""What a run decided. The executor makes one, the settler has the store apply it.

| outcome    | when                                                     | the job is then          |
|------------|----------------------------------------------------------|--------------------------|
| `Done`     | the task returned                                        | done; its result is kept |
| `Retried`  | it failed and may be retried, or asked to run later      | scheduled                |
| `Dead`     | it failed for good, or was never fit to run              | dead, with its history   |
| `Cancelled`| someone cancelled it                                     | cancelled                |
| `Held`     | it may not start now: its task is paused, or over a limit | blocked, at that gate   |
| `Released` | the worker stops before the job ended, could not start   | waiting, in front;       |
|            | it soon enough, or knows that its task runs elsewhere    | nothing counted          |
| `Left`     | the outcome is unknown                                   | running until its lease  |
|            |                                                          | ends, then taken over    |
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, get_args

import msgspec

from headrace.core.job.capacity import Runner


class Done(msgspec.Struct, frozen=True, gc=False):
    verdict: bytes = b""
    """An encoded `Verdict`; empty to keep none."""
    ttl_ms: int = 0


class Retried(msgspec.Struct, frozen=True):
    delay_ms: int
    history: bytes
    """An encoded `History` that includes the delivery at hand."""
    deferred: bool = False
    """No attempt has failed: it asked to run later, or could not be run here and now."""


class Dead(msgspec.Struct, frozen=True):
    reason: str
    history: bytes
    verdict: bytes = b""
    ttl_ms: int = 0


class Cancelled(msgspec.Struct, frozen=True):
    verdict: bytes = b""
    ttl_ms: int = 0
    history: bytes = b""
    """An encoded `History` that includes the run that was ended."""


class Held(msgspec.Struct, frozen=True):
    gate: str
    """`task_gate` of a paused task, or the name of one of the job's limits."""
    history: bytes
    """An encoded `History` that includes the delivery at hand."""


_TASK_GATE = "task "


def task_gate(task: str) -> str:
    """The gate at which jobs of a paused task wait."""
    return f"{_TASK_GATE}{task}"


def gated_task(gate: str) -> str | None:
    """The paused task at whose gate a job waits; None if the gate is another."""
    return gate.removeprefix(_TASK_GATE) if gate.startswith(_TASK_GATE) else None


class Released(msgspec.Struct, frozen=True):
    """Back to the front of its queue, for any worker."""

    runner: Runner | Literal[""] = ""
    """With a runner: among the waiting jobs of that runner, because its task runs there in this
    version of the program, and not where its sender thought."""


class Left(msgspec.Struct, frozen=True):
    """Nothing is written to the store, and the lease is no longer renewed."""


Written = Done | Retried | Dead | Cancelled | Held | Released
"""What a store applies."""
Outcome = Written | Left

WRITTEN: tuple[type[Written], ...] = get_args(Written)
OUTCOMES: tuple[type[Outcome], ...] = get_args(Outcome)

DONE = Done()
RELEASED = Released()
LEFT = Left()


class UnknownOutcome(TypeError):
    """An outcome was given to something that has no case for it, and nothing was done.

    Attributes:
        outcome: What was given.
    """

    def __init__(self, outcome: object) -> None:
        super().__init__(f"the outcome {type(outcome).__name__} is not known here")
        self.outcome = outcome


def check_outcomes(outcomes: Sequence[Outcome], known: AbstractSet[type]) -> None:
    """Raises `UnknownOutcome` if the type of one is not among those that are known. A subclass is
    not: it may mean something else."""
    if known >= set(map(type, outcomes)):
        return
    raise UnknownOutcome(next(each for each in outcomes if type(each) not in known))
