"""What a running worker says of itself: to all in the store, and to those who watch its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.metrics.totals import Phase, Presence
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.consume.heartbeat import Heartbeat
from headrace.worker.services import WorkerServices
from headrace.worker.upkeep.registry import Registry
from headrace.worker.worker_outcome import WorkerOutcome

if TYPE_CHECKING:
    from headrace.worker.worker import Worker


def registry_of(worker: Worker, shared: WorkerServices, loops: Sequence[ConsumerLoop]) -> Registry:
    """The worker's record in the store; `loops` may come and go."""
    return Registry(
        worker.app.store,
        worker.name,
        {**worker.weights, **dict.fromkeys(worker.group_queues, 1)},
        strict=worker.strict,
        concurrency=worker.concurrency,
        lease=worker.app.lease,
        held=shared.held,
        now_ms=shared.clock.now_ms,
        runs=lambda: [run for loop in tuple(loops) for run in loop.runs],
    )


def presence_of(
    phase: Phase,
    shared: WorkerServices,
    loops: Sequence[ConsumerLoop],
    outcome: WorkerOutcome,
    registry: Registry,
    heartbeat: Heartbeat,
) -> Presence:
    """How it all is; to be asked from any thread."""
    loops = tuple(loops)
    return Presence(
        phase,
        running=len(shared.held),
        slots=sum(loop.slots.total for loop in loops),
        lost_leases=outcome.lost_leases,
        consumers=registry.consumers,
        blocked=heartbeat.blocked,
        silent=heartbeat.silent,
        broken=[f"the consumer of {loop.name}" for loop in loops if loop.failure],
    )
