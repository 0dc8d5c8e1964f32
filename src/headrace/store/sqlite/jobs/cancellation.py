"""Cancels jobs: a running one is asked to end, any other ends at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.state import State
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CANCELLING
from headrace.store.sqlite.gates.flows import ending_of
from headrace.store.sqlite.inspection import history
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change

_RESULTS = """
    WITH named (queue, job_id, now_ms) AS (VALUES {rows})
    SELECT results.job_id, results.verdict FROM named JOIN results
        ON results.queue = named.queue AND results.job_id = named.job_id
    WHERE results.expires_ms > named.now_ms"""


def cancel(change: Change, job_ids: Sequence[JobId], *, running: bool) -> list[State | None]:
    """End jobs that are not running; if `running`, ask workers to end the others."""
    found = entries.by_job_ids(change.connection, change.number, job_ids)
    unknown = [(change.number, job_id, change.now_ms) for job_id in job_ids if job_id not in found]
    ended = select_rows(change.connection, _RESULTS, unknown)
    states: dict[JobId, State] = {job_id: ending_of(verdict).state for job_id, verdict in ended}
    gone = [job_id for job_id in job_ids if job_id not in found and job_id not in states]
    kept = history.find(change.connection, change.number, gone, change.now_ms) if gone else {}
    states |= {job_id: job.state for job_id, job in kept.items()}
    asked = [job_id for job_id, entry in found.items() if running and entry.state == "running"]
    if asked:
        entries.flag(change.connection, change.number, asked, CANCELLING)
        change.notify("control", asked)
    stopped = [entry for entry in found.values() if entry.state not in ("running", "dead")]
    completion.cancel(change, stopped)
    for job_id, entry in found.items():
        states[job_id] = (
            State(entry.state) if entry.state in ("running", "dead") else State.CANCELLED
        )
    return [states.get(job_id) for job_id in job_ids]
