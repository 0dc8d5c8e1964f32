"""What a running worker says of itself: to all in the store, and to those who watch its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.metrics.totals import Phase, Presence
from headrace.worker.consume.consumer_loop import Line
from headrace.worker.consume.heartbeat import Heartbeat
from headrace.worker.services import Workshop
from headrace.worker.upkeep.registry import Registry
from headrace.worker.worker_outcome import WorkerOutcome

if TYPE_CHECKING:
    from headrace.worker.worker import Worker


def registry_of(worker: Worker, shop: Workshop, lines: Sequence[Line]) -> Registry:
    """The worker's record in the store; `lines` may come and go."""
    return Registry(
        worker.app.store,
        worker.name,
        {**worker.weights, **dict.fromkeys(worker.group_queues, 1)},
        strict=worker.strict,
        concurrency=worker.concurrency,
        lease=worker.app.lease,
        held=shop.held,
        now_ms=shop.clock.now_ms,
        runs=lambda: [run for line in tuple(lines) for run in line.runs],
    )


def presence_of(
    phase: Phase,
    shop: Workshop,
    lines: Sequence[Line],
    outcome: WorkerOutcome,
    registry: Registry,
    heartbeat: Heartbeat,
) -> Presence:
    """How it all is; to be asked from any thread."""
    lines = tuple(lines)
    return Presence(
        phase,
        running=len(shop.held),
        slots=sum(line.slots.total for line in lines),
        lost_leases=outcome.lost_leases,
        consumers=registry.consumers,
        blocked=heartbeat.blocked,
        silent=heartbeat.silent,
        broken=[f"the line of {line.name}" for line in lines if line.failure],
    )
