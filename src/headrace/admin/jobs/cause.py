"""Why a job is dead that never ran: another failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.state import Reason

if TYPE_CHECKING:
    from headrace.store.contract import DeadJob, JobSnapshot, Store

_TOGETHER = 100
_WITHOUT_A_RUN: Mapping[str, str] = {
    Reason.PARENT_FAILED: "a job that it waited for failed",
    Reason.KEY_FAILED: "an earlier event of its key went dead",
}


@dataclass(frozen=True, slots=True)
class JobCause:
    """A job that failed, and with it those that waited for it."""

    id: str
    """The id of the job."""
    queue: str
    """The queue that it is in."""

    @classmethod
    def of(cls, snapshot: JobSnapshot) -> JobCause | None:
        cause = snapshot.cause
        return None if cause is None else cls(ids.to_text(cause.job_id), cause.queue)


def error_without_a_run(reason: str, cause: JobCause | None) -> str:
    """What is said in place of the error of a job that died with another; empty for all others."""
    if reason == Reason.PARENT_FAILED and cause is not None:
        return f"it waited for job {cause.id}, which failed"
    return _WITHOUT_A_RUN.get(reason, "")


async def causes_of(
    store: Store, found: Sequence[tuple[str, DeadJob]]
) -> dict[tuple[str, JobId], JobCause]:
    """The causes of those of the jobs, each with its queue, that died with another; a call to the
    store for each queue that has any, or more if those are many."""
    failed = defaultdict[str, list[JobId]](list)
    for queue, job in found:
        if job.reason == Reason.PARENT_FAILED:
            failed[queue].append(job.job_id)
    causes = dict[tuple[str, JobId], JobCause]()
    for queue, job_ids in failed.items():
        for start in range(0, len(job_ids), _TOGETHER):
            batch = job_ids[start : start + _TOGETHER]
            for job_id, seen in zip(batch, await store.get(queue, batch, bodies=True), strict=True):
                if seen is not None and (cause := JobCause.of(seen)) is not None:
                    causes[queue, job_id] = cause
    return causes
