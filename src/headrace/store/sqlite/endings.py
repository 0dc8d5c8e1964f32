"""What the end of a job sets free, and the ends that the store itself decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import RESULT_TTL
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import CANCELLED_VERDICT, Verdict, encode_verdict
from headrace.store.sqlite import entries, lanes, limits, reporting, uniques
from headrace.store.sqlite.entries import (
    CANCELLING,
    CHILDREN,
    CONSTRAINED,
    FLOW_GATE,
    LADEN,
    MARKED,
    PASSED,
    REPORTED,
)  # fmt: skip
from headrace.store.sqlite.facts import task_of
from headrace.store.sqlite.rows import bounded_ms, run_rows, select_rows
from headrace.store.values import Arrival, JobEnding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.entries import Entry
    from headrace.store.sqlite.step import Step

KEPT_MS = round(RESULT_TTL * 1000)
_PARENT_FAILED = encode_verdict(
    Verdict(State.DEAD, b"", Reason.PARENT_FAILED, "", "a job that it waited for failed", "")
)

_TAKE_CHILDREN = """
    DELETE FROM children WHERE parent IN (VALUES {rows}) AND queue = ?
    RETURNING parent, child_queue, child, known_as, runs_anyway"""
_FORGET_JOINS = "DELETE FROM joins WHERE child IN (VALUES {rows}) AND queue = ?"
_TAKE_PARENTS = """
    DELETE FROM parents WHERE child IN (VALUES {rows}) AND queue = ?
    RETURNING child, place, value"""
_KEEP = """
    INSERT INTO results (queue, job_id, expires_ms, verdict) VALUES {rows}
    ON CONFLICT (queue, job_id) DO UPDATE
    SET expires_ms = excluded.expires_ms, verdict = excluded.verdict"""
_BURY = f"""
    WITH dead (id, died_ms, reason) AS (VALUES {{rows}})
    UPDATE jobs SET state = 'dead', time_ms = dead.died_ms, reason = dead.reason, lane = '',
        gate = '', flags = flags & {MARKED | LADEN}
    FROM dead WHERE jobs.id = dead.id"""


def let_go(step: Step, ended: Sequence[tuple[Entry, JobEnding]]) -> None:
    """Set free what jobs that end have held, and tell those that wait for them. Their rows are the
    caller's to remove."""
    gone = [entry for entry, _ in ended]
    constrained = [entry for entry in gone if entry.flags & CONSTRAINED]
    if constrained:
        lanes.leave(step, constrained)
        limits.leave_line(step, constrained)
        limits.give_back(step, [entry for entry in constrained if entry.flags & PASSED])
        uniques.end(step, constrained)
    if any(entry.flags & CANCELLING for entry in gone):
        # Else workers would go on to end a new job with the same id.
        step.tell("control")
    if reported := [entry.job_id for entry in gone if entry.flags & REPORTED]:
        reporting.forget_progress(step, reported)
    if marked := [e.job_id for e, how in ended if e.flags & MARKED and how.state != State.DEAD]:
        reporting.forget_marks(step, marked)
    if awaited := {e.job_id: how for e, how in ended if e.flags & CHILDREN}:
        _tell_children(step, awaited)
    if blocked := [entry.job_id for entry in gone if entry.gate == FLOW_GATE]:
        forget_parents(step, blocked)


def _tell_children(step: Step, ended: dict[JobId, JobEnding]) -> None:
    rows = [(job_id,) for job_id in ended]
    found = select_rows(step.connection, _TAKE_CHILDREN, rows, step.number)
    for parent, queue, child, known_as, runs_anyway in found:
        arrival = Arrival(child, known_as, ended[parent], bool(runs_anyway))
        step.arrivals.append((queue, arrival))


def forget_parents(step: Step, children: Sequence[JobId]) -> list[tuple[JobId, int, bytes]]:
    """Forget what these jobs waited for, and return it: child, place, value."""
    rows = [(job_id,) for job_id in children]
    run_rows(step.connection, _FORGET_JOINS, rows, step.number)
    return select_rows(step.connection, _TAKE_PARENTS, rows, step.number)


def cancel(step: Step, cancelled: Sequence[Entry]) -> None:
    """End jobs that do not run, or no longer, as cancelled."""
    if cancelled:
        _keep_verdicts(step, cancelled, CANCELLED_VERDICT)
        let_go(step, [(entry, JobEnding(State.CANCELLED)) for entry in cancelled])
        entries.delete(step.connection, [entry.id for entry in cancelled])
        for entry in cancelled:
            step.record("cancelled", entry.job_id, task_of(entry.head))


def fail(step: Step, failed: Sequence[Entry]) -> None:
    """End jobs that can never run, because one that they waited for failed."""
    if failed:
        _keep_verdicts(step, failed, _PARENT_FAILED)
        let_go(step, [(entry, JobEnding(State.DEAD)) for entry in failed])
        rows = [(entry.id, step.now_ms, Reason.PARENT_FAILED.value) for entry in failed]
        run_rows(step.connection, _BURY, rows)
        for entry in failed:
            reason = Reason.PARENT_FAILED.value
            step.record("dead", entry.job_id, task_of(entry.head), 0, 0, 0, reason)


def _keep_verdicts(step: Step, ended: Sequence[Entry], verdict: bytes) -> None:
    rows = [
        (
            step.number,
            e.job_id,
            bounded_ms(step.now_ms + (e.constraints.ttl_ms or KEPT_MS)),
            verdict,
        )
        for e in ended
    ]
    run_rows(step.connection, _KEEP, rows)
    step.tell("finished", [entry.job_id for entry in ended])
