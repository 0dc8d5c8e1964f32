"""What a blocked job waits for, in a few words, for lists."""

from __future__ import annotations

from headrace.core.job.constraints import BATCH_GATE, QUEUE_LIMIT, RATE_GATE, batch_gate, rate_gate
from headrace.core.job.outcome import gated_task

_OTHERS_OF_ITS_TASK = "others of its task"
_KNOWN = {
    "flow": "other jobs of its flow",
    "task_lane": _OTHERS_OF_ITS_TASK,
    QUEUE_LIMIT: "the rate of its queue",
}


def gate_text(gate: str, key: str | None, task: str | None) -> str:
    """What closes this gate for a job with this `key`, such as "others of key 'o-17'".

    Args:
        gate: As in `JobSummary.waits_for`, or the name of a limit.
        key: The job's key.
        task: The job's task.
    """
    if gate == "lane":
        return _OTHERS_OF_ITS_TASK if key is None else f"others of key {key!r}"
    if gated_task(gate) is not None:
        return "its task to be resumed"
    if gate.startswith(RATE_GATE):
        its_key = _key_in(gate, rate_gate(task or ""))
        return f"the rate of {its_key!r}" if its_key else "the rate of its task"
    if gate.startswith(BATCH_GATE):
        its_key = _key_in(gate, batch_gate(task or ""))
        return f"others of the batch {its_key!r}" if its_key else "others of its batch"
    return _KNOWN.get(gate, gate)


def _key_in(gate: str, whole: str) -> str:
    """The `rate_key` or `batch_key` in a gate's name; empty if it has none."""
    return gate.removeprefix(f"{whole}:") if gate.startswith(f"{whole}:") else ""
