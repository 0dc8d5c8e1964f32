"""Values that go in and out of a store, beyond jobs themselves."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headrace.core.job.capacity import Runner
from headrace.core.job.ids import JobId
from headrace.core.job.state import State


class IdempotencyKey:
    """Identifies one change, however often a store is asked for it. A caller that may have to ask
    again makes one and passes it each time. The store applies the change once, even if an earlier
    try arrives after a later one, and gives every try the same answer."""

    __slots__ = ("_parts", "answer", "answered", "id", "scope")

    def __init__(self) -> None:
        self.id = ""
        """The store's name for it, from the first try on, and where the store keeps that."""
        self.scope = ""
        self.answer: Any = None
        """The answer so far; complete once it is `answered`."""
        self.answered = False
        self._parts: list[IdempotencyKey] = []

    def part(self, at: int) -> IdempotencyKey:
        """The key of one step, if the store applies the change in several."""
        while len(self._parts) <= at:
            self._parts.append(IdempotencyKey())
        return self._parts[at]


class Counts(msgspec.Struct, frozen=True):
    """How many jobs of a queue are in each state that a store keeps."""

    waiting: int = 0
    running: int = 0
    scheduled: int = 0
    dead: int = 0
    blocked: int = 0


class Description(msgspec.Struct, frozen=True):
    """What a store is."""

    kind: str
    """Such as `Redis`."""
    version: str
    risks: tuple[str, ...] = ()
    """What may lose jobs, show them to others, or keep them from being worked off, each as a
    sentence that says what to do."""
    unread: tuple[str, ...] = ()
    """Settings that matter and that this user may not read, each as a sentence."""


class RunnerState(msgspec.Struct, frozen=True):
    """The jobs of a queue that are for one runner."""

    waiting: int = 0
    running: int = 0
    oldest_ms: int | None = None
    """When the one that has waited longest became ready; None if none waits."""


class QueueState(msgspec.Struct, frozen=True):
    """The state of a queue: what it holds, what is paused, and how long jobs have waited."""

    counts: Counts = Counts()
    paused: bool = False
    paused_tasks: frozenset[str] = frozenset()
    oldest_ms: int | None = None
    """When the job that has waited longest became ready, by the store's clock; None if none
    waits."""
    runners: dict[Runner, RunnerState] = {}
    """The state of each runner that has jobs waiting or running; events are `loop`."""
    last_died_ms: int | None = None
    """When the latest of the dead jobs died; None if there is none."""


class JobEnding(msgspec.Struct, frozen=True, gc=False):
    """How a job ended, for a job that waits for it. `value` is its encoded result; empty if it had
    none or it was not kept. That of a dead one is its `Cause`, encoded. `WAITING` takes back that
    it is dead: it was replayed."""

    state: State
    value: bytes = b""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """The end of `parent`, on its way to `child`. `replays` is how often the parent had been
    replayed then: a message with a lower number is older."""

    child: JobId
    parent: JobId
    ending: JobEnding
    runs_anyway: bool = False
    replays: int = 0


class FlowMessage(msgspec.Struct, frozen=True):
    """An arrival in another queue, on its way there: kept until it is delivered."""

    id: str
    queue: str
    arrival: Arrival


class Report(msgspec.Struct, frozen=True):
    """What a running job reports: its progress, and lines for its log."""

    job_id: JobId
    progress: bytes = b""
    """An encoded `Progress`; empty for no change."""
    lines: tuple[str, ...] = ()


class LogPage(msgspec.Struct, frozen=True):
    lines: list[str]
    following: int
    """The number of the next line, to ask for more."""


class Gathered(msgspec.Struct, frozen=True):
    """Jobs that gather for one batch: how many, and when the first and the last came."""

    count: int
    first_ms: int
    last_ms: int


class Control(msgspec.Struct, frozen=True):
    """What people ask of the workers of a queue."""

    paused: bool = False
    paused_tasks: frozenset[str] = frozenset()
    cancelling: tuple[JobId, ...] = ()
    """Jobs that were running when someone cancelled them, and have not ended yet."""


class JobIdPage(msgspec.Struct, frozen=True):
    job_ids: list[JobId]
    cursor: str
    """Where the next page begins; empty after the last."""


class EndedJob(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a job that is done or cancelled."""

    job_id: JobId
    state: State
    ended_ms: int
    """By the store's clock, like all times."""
    task: str
    attempt: int = 0
    """Which attempt ended it; 0 if its function was not entered."""
    worker: str = ""
    ready_ms: int = 0
    """When it began to wait for its last run; 0 if that is not known."""
    started_ms: int = 0
    took_us: int = 0
    envelope: bytes = b""
    """Empty if it was too large to keep."""
    history: bytes = b""
    """An encoded `History` of the attempts before, or of all if it was cancelled."""
    constraints: bytes = b""
    verdict: bytes = b""
    """Empty if its result is not kept, or was too large."""
    progress: bytes = b""
    inputs: bytes = b""
    """The results of the jobs that it waited for, as an array; empty if they were too large."""


class EndedJobPage(msgspec.Struct, frozen=True):
    jobs: list[EndedJob]
    cursor: str
    """Where the next page begins; empty after the last."""


Kind = Literal[
    "sent", "scheduled", "blocked", "ready", "started",
    "done", "retry", "deferred", "dead", "cancelled", "held", "released", "stalled",
    "replayed", "lost",
]  # fmt: skip


class Fact(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One thing that happened to a job. `detail` is a reason, a delay or a number, as the
    kind has it."""

    kind: Kind
    job_id: JobId
    task: str = ""
    attempt: int = 0
    started_ms: int = 0
    took_us: int = 0
    detail: str = ""


class RecordedFact(msgspec.Struct, frozen=True):
    """A fact with the store's time, and the cursor from which reading goes on."""

    cursor: str
    at_ms: int
    fact: Fact

    @classmethod
    def written(cls, cursor: str, at_ms: int, fact: Fact) -> RecordedFact:
        """A fact that was written at this time. A start has the time at which it happened, however
        late it was written."""
        return cls(cursor, fact.started_ms if fact.kind == "started" else at_ms, fact)

    @property
    def has_start(self) -> bool:
        """Whether this is the end of a run whose start was written with it. The start comes right
        before it, with a cursor that leads to both."""
        return self.fact.started_ms > 0 and self.fact.kind != "started"

    def start(self, cursor: str) -> RecordedFact:
        """The start that was written with it."""
        fact = self.fact
        start = Fact("started", fact.job_id, fact.task, fact.attempt, fact.started_ms)
        return RecordedFact(cursor, fact.started_ms, start)


class MinuteCount(msgspec.Struct, frozen=True):
    """A count of one task (of a log: `@` and the topic) in one minute. `kind` is that of a fact;
    or `dropped`, for events that a bound removed before all groups had settled them; or one of the
    kinds that `core/job/tally.py` makes of runs: how long they took and had waited."""

    minute: int
    """Minutes since 1970 by the store's clock."""
    task: str
    kind: str
    count: int
