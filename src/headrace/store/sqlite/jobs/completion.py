"""The end of a job: what it frees, and ends that the store itself decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import RESULT_TTL
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import CANCELLED_VERDICT, Verdict, encode_verdict
from headrace.store.flow_values import Cause, encode_cause
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import (
    CANCELLING,
    CHILDREN,
    CONSTRAINED,
    FLOW_GATE,
    IN_FLOW,
    LADEN,
    MARKED,
    REPORTED,
)  # fmt: skip
from headrace.store.sqlite.gates import flow_parts, lanes, limits, uniques
from headrace.store.sqlite.inspection import progress_log
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import history_writer
from headrace.store.sqlite.rows import bounded_ms, run_rows, select_rows
from headrace.store.values import Arrival, JobEnding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

KEPT_MS = round(RESULT_TTL * 1000)
_PARENT_FAILED = encode_verdict(
    Verdict(State.DEAD, b"", Reason.PARENT_FAILED, "", "a job that it waited for failed", "")
)
_REPLAYED = JobEnding(State.WAITING)

_TAKE_CHILDREN = """
    DELETE FROM children WHERE parent IN (VALUES {rows}) AND queue = ?
    RETURNING parent, child_queue, child, known_as, runs_anyway"""
_CHILDREN_OF = """
    SELECT parent, child_queue, child, known_as, runs_anyway FROM children
    WHERE parent IN (VALUES {rows}) AND queue = ?"""
_LEFT = """
    SELECT parent, child_queue, child, known_as, runs_anyway, jobs.state = 'dead'
    FROM children LEFT JOIN jobs ON jobs.queue = children.queue AND jobs.job_id = children.parent
    WHERE children.queue = ? AND child_queue != ?"""
_FORGET_JOINS = "DELETE FROM joins WHERE child IN (VALUES {rows}) AND queue = ?"
_TAKE_PARENTS = """
    DELETE FROM parents WHERE child IN (VALUES {rows}) AND queue = ?
    RETURNING child, place, value"""
_FORGET_RESULTS = "DELETE FROM results WHERE job_id IN (VALUES {rows}) AND queue = ?"
_KEEP = """
    INSERT INTO results (queue, job_id, expires_ms, verdict) VALUES {rows}
    ON CONFLICT (queue, job_id) DO UPDATE
    SET expires_ms = excluded.expires_ms, verdict = excluded.verdict"""
_MARK_DEAD = f"""
    WITH dead (id, died_ms, reason) AS (VALUES {{rows}})
    UPDATE jobs SET state = 'dead', time_ms = dead.died_ms, reason = dead.reason, lane = '',
        task_lane = '', gate = '', flags = flags & {MARKED | REPORTED | LADEN | CHILDREN | IN_FLOW}
    FROM dead WHERE jobs.id = dead.id"""


def let_go(change: Change, ended: Sequence[tuple[Entry, JobEnding]]) -> None:
    """Free what ending jobs hold, and send their ends to their children. The caller deletes their
    rows."""
    gone = [entry for entry, _ in ended]
    constrained = [entry for entry in gone if entry.flags & CONSTRAINED]
    if constrained:
        lanes.leave(change, constrained)
        limits.leave(change, constrained)
        limits.give_back(change, constrained)
        uniques.end(change, constrained)
    if any(entry.flags & CANCELLING for entry in gone):
        # Else workers would end a new job with the same id.
        change.notify("control")
    # A dead job keeps what it reported and what it has done once.
    over = [entry for entry, how in ended if how.state != State.DEAD]
    if reported := [entry.job_id for entry in over if entry.flags & REPORTED]:
        progress_log.forget_progress(change, reported)
    if marked := [entry.job_id for entry in over if entry.flags & MARKED]:
        progress_log.forget_marks(change, marked)
    if awaited := {e.job_id: how for e, how in ended if e.flags & CHILDREN}:
        tell_children(change, awaited)
    if left := [(e.constraints.flow, how.state) for e, how in ended if _leaves_flow(e, how)]:
        flow_parts.leave(change, left)
    if blocked := [e.job_id for e, how in ended if e.gate == FLOW_GATE and how.state != State.DEAD]:
        forget_parents(change, blocked)


def _leaves_flow(entry: Entry, ending: JobEnding) -> bool:
    """A dead job may be replayed, and is counted where it is."""
    return bool(entry.flags & IN_FLOW) and ending.state != State.DEAD


def tell_children(change: Change, ended: Mapping[JobId, JobEnding]) -> None:
    """Send the ends of jobs to their children. A dead job keeps them: they go on when it is
    replayed."""
    dead = [(job_id,) for job_id, how in ended.items() if how.state == State.DEAD]
    others = [(job_id,) for job_id, how in ended.items() if how.state != State.DEAD]
    found = select_rows(change.connection, _TAKE_CHILDREN, others, change.number)
    found += select_rows(change.connection, _CHILDREN_OF, dead, change.number)
    for parent, queue, child, known_as, runs_anyway in found:
        ending = ended[parent]
        if ending.state == State.DEAD and not ending.value:
            ending = _failed_first(change, parent)
        change.arrivals.append((queue, Arrival(child, known_as, ending, bool(runs_anyway))))


def _failed_first(change: Change, job_id: JobId) -> JobEnding:
    return JobEnding(State.DEAD, encode_cause(Cause(change.queue, job_id)))


def tell_those_left(change: Change, number: int) -> None:
    """Say to jobs of other queues that those of this one are about to be removed."""
    found = change.connection.execute(_LEFT, (number, change.queue)).fetchall()
    for parent, queue, child, known_as, runs_anyway, is_dead in found:
        ending = _failed_first(change, parent) if is_dead else JobEnding(State.CANCELLED)
        change.arrivals.append((queue, Arrival(child, known_as, ending, bool(runs_anyway))))


def notify_of_replay(change: Change, replayed: Sequence[Entry]) -> None:
    """Let the children of dead jobs that are not dead any more wait for them again."""
    rows = [(entry.job_id,) for entry in replayed if entry.flags & CHILDREN]
    for _, queue, child, known_as, _ in select_rows(
        change.connection, _CHILDREN_OF, rows, change.number
    ):
        change.arrivals.append((queue, Arrival(child, known_as, _REPLAYED)))


def forget_family(change: Change, forgotten: Sequence[JobId]) -> None:
    """Delete what dead jobs waited for, and those that waited for them. To these they are dead for
    good, and why they are, whichever job failed before."""
    rows = [(job_id,) for job_id in forgotten]
    for parent, queue, child, known_as, runs_anyway in select_rows(
        change.connection, _TAKE_CHILDREN, rows, change.number
    ):
        ending = _failed_first(change, parent)
        change.arrivals.append((queue, Arrival(child, known_as, ending, bool(runs_anyway))))
    forget_parents(change, forgotten)


def forget_parents(change: Change, children: Sequence[JobId]) -> list[tuple[JobId, int, bytes]]:
    """Delete what these jobs waited for; returns child, place and value of each."""
    rows = [(job_id,) for job_id in children]
    run_rows(change.connection, _FORGET_JOINS, rows, change.number)
    return select_rows(change.connection, _TAKE_PARENTS, rows, change.number)


def cancel(change: Change, cancelled: Sequence[Entry]) -> None:
    """End jobs that are not running, or whose worker is gone, as cancelled."""
    if cancelled:
        history_writer.write_cancelled(change, cancelled)
        _keep_verdicts(change, cancelled, CANCELLED_VERDICT)
        let_go(change, [(entry, JobEnding(State.CANCELLED)) for entry in cancelled])
        entries.delete(change.connection, [entry.id for entry in cancelled])
        for entry in cancelled:
            change.record("cancelled", entry.job_id, task_of(entry.head))


def fail(change: Change, failed: Sequence[tuple[Entry, bytes]]) -> None:
    """End jobs as dead, because one that they waited for failed: each with its `Cause`. What they
    waited for is kept."""
    if failed:
        dead = [entry for entry, _ in failed]
        _keep_verdicts(change, dead, _PARENT_FAILED)
        let_go(change, [(entry, JobEnding(State.DEAD, cause)) for entry, cause in failed])
        rows = [(entry.id, change.now_ms, Reason.PARENT_FAILED.value) for entry in dead]
        run_rows(change.connection, _MARK_DEAD, rows)
        for entry, cause in failed:
            reason = Reason.PARENT_FAILED.value
            change.record_death(reason, entry.job_id, task_of(entry.head), cause)


def forget_results(change: Change, replayed: Sequence[Entry]) -> None:
    """Else callers that wait for the new run would get the result of the old one."""
    rows = [(entry.job_id,) for entry in replayed]
    run_rows(change.connection, _FORGET_RESULTS, rows, change.number)


def _keep_verdicts(change: Change, ended: Sequence[Entry], verdict: bytes) -> None:
    rows = [
        (
            change.number,
            e.job_id,
            bounded_ms(change.now_ms + (e.constraints.ttl_ms or KEPT_MS)),
            verdict,
        )
        for e in ended
    ]
    run_rows(change.connection, _KEEP, rows)
    change.notify("finished", [entry.job_id for entry in ended])
