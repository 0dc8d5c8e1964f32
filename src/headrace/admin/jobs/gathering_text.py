"""A job that gathers with others of its batch, in words."""

from __future__ import annotations

from headrace.core.clock import to_datetime
from headrace.core.display import plural, utc_text
from headrace.core.job.constraints import Constraints
from headrace.core.masking import Masks
from headrace.store.contract import JobSnapshot


def gathering_text(seen: JobSnapshot, constraints: Constraints, task: str, masks: Masks) -> str:
    """With whom a blocked job gathers, and until when, as part of a sentence; empty if it does not
    gather."""
    gathering, gathered = constraints.gathering, seen.gathered
    if gathering is None or gathering.name != seen.reason:
        return ""
    key = key_in(gathering.name, task)
    whose = f"task {task!r}" if key is None else f"key {masks.name(key)!r}"
    if gathered is None:
        return f"it gathers with others of {whose}"
    others = plural(gathered.count - 1, "other") if gathered.count > 1 else "no others yet"
    goes = utc_text(to_datetime(gathering.goes_ms(gathered.first_ms, gathered.last_ms)))
    enough = f"until there are {gathering.most:,} or until {goes}"
    return f"it gathers with {others} of {whose}, {enough}"


def key_in(name: str, task: str) -> str | None:
    """The `batch_key` in the name under which jobs of this task gather; None if they have none."""
    _, found, key = name.partition(f":{task}:")
    return key if found else None
