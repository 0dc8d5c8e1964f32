"""What a blocked job waits for, in words."""

from __future__ import annotations

from headrace.core.job.constraints import (
    BATCH_GATE,
    QUEUE_LIMIT,
    RATE_GATE,
    batch_gate,
    rate_gate,
)
from headrace.core.job.outcome import gated_task

_OTHERS = {
    "lane": "other jobs of its key",
    "task_lane": "other jobs of its task",
    "flow": "other jobs of its flow",
}


def gate_text(gate: str, queue: str, task: str | None) -> str:
    """For the end of a sentence; the gate itself if it is of a newer version."""
    if gate in _OTHERS:
        return _OTHERS[gate]
    if gate == QUEUE_LIMIT:
        return f"the rate of queue {queue}"
    if (paused := gated_task(gate)) is not None:
        return f"task {paused}, which is paused"
    if gate.startswith(RATE_GATE):
        return f"the rate of {_whose(gate, rate_gate(task or ''), task)}"
    if gate.startswith(BATCH_GATE):
        return f"more jobs for a batch of {_whose(gate, batch_gate(task or ''), task)}"
    return gate


def _whose(gate: str, whole: str, task: str | None) -> str:
    """The task, with the key that is in the name of its gate."""
    if task is None:
        return gate.partition(":")[2]
    key = gate.removeprefix(f"{whole}:") if gate.startswith(f"{whole}:") else ""
    return f"task {task}, key {key}" if key else f"task {task}"
