"""A job that gathers with others of its batch, in words."""

from __future__ import annotations

from headrace.core.clock import to_datetime
from headrace.core.display import plural, utc_text
from headrace.core.job.constraints import Constraints, batch_gate
from headrace.core.masking import Masks
from headrace.store.contract import JobSnapshot


def gathering_text(
    seen: JobSnapshot, constraints: Constraints, task: str, masks: Masks, now_ms: int
) -> str:
    """With whom a blocked job gathers, and until when, as part of a sentence; empty if it does not
    gather."""
    gathering, gathered = constraints.gathering, seen.gathered
    if gathering is None or gathering.name != seen.reason:
        return ""
    key = key_in(gathering.name, task)
    named = f"task {task!r}" if task else "its task"
    whose = named if key is None else f"key {masks.name(key)!r}"
    if gathered is None:
        return f"it gathers with others of {whose}"
    others = plural(gathered.count - 1, "other") if gathered.count > 1 else "no others"
    goes_ms = gathering.goes_ms(gathered.first_ms, gathered.last_ms)
    if goes_ms <= now_ms:
        return f"it has gathered with {others} of {whose}, and goes when a worker looks"
    enough = f"until there are {gathering.most:,} or until {utc_text(to_datetime(goes_ms))}"
    return f"it gathers with {others} of {whose}, {enough}"


def key_in(name: str, task: str) -> str | None:
    """The `batch_key` in the name under which jobs of this task gather; None if they have none."""
    whole = f"{batch_gate(task)}:"
    return name.removeprefix(whole) if name.startswith(whole) else None
