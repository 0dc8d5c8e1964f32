"""A job that waits for others of its flow, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.admin.bodies import opened
from headrace.admin.jobs.flow_survey import flow_around
from headrace.core.display import plural
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.state import ENDED
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

_MOST_NAMED = 3


def flow_text(job_id: JobId, seen: JobSnapshot) -> str:
    """Its place in its flow, as the beginning of a sentence."""
    envelope = opened(seen.envelope)
    flow = b"" if envelope is None else envelope.overrides.flow
    if flow == job_id:
        return "it ends its flow, and waits"
    return f"it belongs to the flow of {ids.to_text(flow)}, and waits" if flow else "it waits"


async def parents_text(store: Store, queue: str, job_id: JobId, seen: JobSnapshot) -> str:
    """The jobs of its flow that it waits for, as part of a sentence."""
    flow = await flow_around(store, queue, job_id, seen)
    left = [job for job in flow.parents_of(ids.to_text(job_id)) if job.state not in ENDED]
    named = [
        f"job {job.id}{of_task(job.task)} ({job.state or 'its state is not known'})"
        for job in left[:_MOST_NAMED]
    ]
    if len(left) > _MOST_NAMED:
        named.append(plural(len(left) - _MOST_NAMED, "other job"))
    *most, last = named or ["other jobs"]
    return f"{', '.join(most)} and {last}" if most else last


def of_task(task: str | None) -> str:
    """Of a job whose task cannot be read, nothing."""
    return "" if task is None else f" of task {task!r}"
