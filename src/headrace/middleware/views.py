"""What a middleware sees of a worker: a run, and a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from headrace.audit.record import Ending, ending_of
from headrace.client.context import Context
from headrace.client.task import Task
from headrace.core.job import ids
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import Envelope, Malformed, NewerFormat, decode_envelope
from headrace.core.job.history import History
from headrace.core.job.outcome import Outcome

Settled = Callable[[Ending], None]


class WorkerRun(Protocol):
    """A run as the worker has it."""

    task: Task[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    envelope: Envelope
    delivery: LeasedDelivery
    history: History
    lease_lost: bool

    @property
    def members(self) -> Sequence[WorkerRun]: ...
    @property
    def attempt(self) -> int: ...
    def context(self) -> Context: ...
    def use(self, context: Context) -> None: ...


class JobRun:
    """A run that is about to begin. The function gets the arguments and the context that are set
    here. For a batch, `args` has the list of items, `jobs` all jobs, and all else is of the first
    job."""

    __slots__ = ("_run",)

    def __init__(self, run: WorkerRun) -> None:
        self._run = run

    @property
    def task(self) -> Task[..., Any]:
        return self._run.task

    @property
    def args(self) -> tuple[Any, ...]:
        return self._run.args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._run.args = args

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._run.kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._run.kwargs = kwargs

    @property
    def context(self) -> Context:
        """Made when first used; the other properties cost less."""
        return self._run.context()

    @context.setter
    def context(self, context: Context) -> None:
        self._run.use(context)

    @property
    def id(self) -> str:
        return ids.to_text(self._run.delivery.job_id)

    @property
    def queue(self) -> str:
        """As `Context.queue`: for an event that of its group."""
        return self._run.delivery.queue

    @property
    def attempt(self) -> int:
        return self._run.attempt

    @property
    def replayed(self) -> bool:
        """Whether it was dead before: `attempt` counts from its last replay."""
        return bool(self._run.history.replayed_ms)

    @property
    def headers(self) -> Mapping[str, str]:
        """As they were sent."""
        return self._run.envelope.overrides.headers

    @property
    def jobs(self) -> list[JobRun]:
        """One for each job of a batch; otherwise only this."""
        return [JobRun(member) for member in self._run.members]

    def when_settled(self, settled: Settled) -> None:
        """Have `settled` called with the job's ending, right before that is written; for a batch
        once for each job. It must neither wait nor fail."""
        for member in self._run.members:
            delivery = member.delivery
            delivery.on_outcome = partial(_call, member, settled, delivery.on_outcome)


def _call(
    run: WorkerRun, settled: Settled, before: Callable[[Outcome], None] | None, outcome: Outcome
) -> None:
    if before is not None:
        before(outcome)
    ending = ending_of(outcome, len(run.history.attempts))
    settled(ending._replace(outcome="lost") if run.lease_lost else ending)


class Received:
    """What one read of a worker brought: at least one job or event."""

    __slots__ = ("_deliveries", "began_ns")

    def __init__(self, deliveries: Sequence[LeasedDelivery], began_ns: int) -> None:
        self._deliveries = deliveries
        self.began_ns = began_ns
        """When the worker asked for them, in nanoseconds since 1970."""

    def __len__(self) -> int:
        return len(self._deliveries)

    @property
    def queue(self) -> str | None:
        """The queue from which all of them are; None if they are from several."""
        queue = self._deliveries[0].queue
        return queue if all(each.queue == queue for each in self._deliveries) else None

    def headers(self) -> Iterator[Mapping[str, str]]:
        """The headers of each that has any; decoded as they are asked for."""
        for delivery in self._deliveries:
            try:
                headers = decode_envelope(delivery.envelope).overrides.headers
            except (Malformed, NewerFormat):
                continue
            if headers:
                yield headers
