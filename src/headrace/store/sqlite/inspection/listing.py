"""Reads of jobs: by id, by state, by page; and the names of queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core.job.envelope import FORMATS, Malformed
from headrace.core.job.state import ENDED, State
from headrace.core.job.verdict import decode_verdict
from headrace.core.queue_names import group_source, is_log
from headrace.store.contract import MOST_INPUTS, UNREADABLE, DeadJob, DeadJobPage, JobSnapshot
from headrace.store.flow_values import Cause, decode_cause
from headrace.store.history.page import last_lives, page_of, positions_in
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import REPORTED, json_of
from headrace.store.sqlite.gates import batches, flows
from headrace.store.sqlite.inspection import history
from headrace.store.sqlite.rows import numbers_in, page_values, queue_id
from headrace.store.sqlite.topics import backlog
from headrace.store.values import EndedJobPage, JobIdPage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.capacity import Runner
    from headrace.core.job.ids import JobId
    from headrace.store.oddities import Oddities

# A column can hold a value of any type: it is read as the type that it should have.
_JOB = """
    SELECT CAST(state AS TEXT), CAST(time_ms AS INTEGER), CAST(owner AS TEXT),
        CAST(count AS INTEGER), CAST(reason AS TEXT), CAST(flags AS INTEGER),
        CAST(constraints AS BLOB), {bodies} FROM jobs
    WHERE queue = ? AND job_id = ?"""
_INPUTS = f"CASE WHEN length(inputs) <= {MOST_INPUTS} THEN CAST(inputs AS BLOB) ELSE x'' END"
_WITH_BODIES = _JOB.format(bodies=f"CAST(envelope AS BLOB), CAST(history AS BLOB), {_INPUTS}")
_WITHOUT_BODIES = _JOB.format(bodies="x'', x'', x''")
_PROGRESS = "SELECT CAST(value AS BLOB) FROM progress WHERE queue = ? AND job_id = ?"
_RESULT = """
    SELECT CAST(verdict AS BLOB) FROM results WHERE queue = ? AND job_id = ? AND expires_ms > ?"""
LOCATE = """
    SELECT name FROM queues
    WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names)) AND (
        EXISTS (SELECT 1 FROM jobs WHERE jobs.queue = queues.id AND jobs.job_id = :job_id)
        OR EXISTS (
            SELECT 1 FROM results
            WHERE results.queue = queues.id AND results.job_id = :job_id AND expires_ms > :now_ms)
        OR EXISTS (
            SELECT 1 FROM topic_events
            WHERE topic_events.log = queues.id AND topic_events.job_id = :job_id)
        OR EXISTS (
            SELECT 1 FROM topic_groups CROSS JOIN topic_events
                ON topic_events.log = topic_groups.log AND topic_events.job_id = :job_id
            WHERE topic_groups.queue = queues.id AND topic_events.id > position))"""
_NAMES = "SELECT CAST(name AS BLOB) FROM queues WHERE namespace = ?"
_DEAD = """
    SELECT id, time_ms, CAST(job_id AS BLOB), CAST(time_ms AS INTEGER), reason,
        CAST(envelope AS BLOB), CAST(history AS BLOB), CAST(constraints AS BLOB) FROM jobs
    WHERE queue = ? AND state = 'dead'{before}
    ORDER BY time_ms DESC, id DESC LIMIT ?"""
_LATEST_DEAD = _DEAD.format(before="")
_DEAD = _DEAD.format(before=" AND (time_ms, id) < (?, ?)")
_AFTER_ALL = 2**63 - 1
_STATES = frozenset(State)
_PAGES = {
    State.WAITING: (
        """SELECT CAST(job_id AS BLOB), runner, -priority, position, id FROM jobs
        WHERE queue = :queue AND state = 'waiting' AND runner >= :first AND runner <= :last
            AND (runner, -priority, position, id) > (:first, :second, :third, :fourth)
        ORDER BY runner, priority DESC, position, id LIMIT :limit""",
        [-_AFTER_ALL, 0, 0, 0],
    ),
    State.SCHEDULED: (
        """SELECT CAST(job_id AS BLOB), CAST(time_ms AS INTEGER), id FROM jobs
        WHERE queue = :queue AND state = 'scheduled' AND (time_ms, id) > (:first, :second)
        ORDER BY time_ms, id LIMIT :limit""",
        [-1, 0],
    ),
    # Not by the end of the lease, which changes.
    State.RUNNING: (
        """SELECT CAST(job_id AS BLOB), id FROM jobs
        WHERE queue = :queue AND state = 'running' AND id > :first ORDER BY id LIMIT :limit""",
        [0],
    ),
    State.BLOCKED: (
        """SELECT CAST(job_id AS BLOB), id FROM jobs
        WHERE queue = :queue AND state = 'blocked' AND id > :first ORDER BY id LIMIT :limit""",
        [0],
    ),
    State.DEAD: (
        """SELECT CAST(job_id AS BLOB), CAST(time_ms AS INTEGER), id FROM jobs
        WHERE queue = :queue AND state = 'dead' AND (time_ms, id) < (:first, :second)
        ORDER BY time_ms DESC, id DESC LIMIT :limit""",
        [_AFTER_ALL, _AFTER_ALL],
    ),
}


def get(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    job_ids: Sequence[JobId],
    bodies: bool,
    now_ms: int,
) -> list[JobSnapshot | None]:
    number = queue_id(connection, namespace, queue)
    if number is None:
        return [None] * len(job_ids)
    found = [_snapshot(connection, number, job_id, bodies, now_ms) for job_id in job_ids]
    gone = [
        job_id
        for job_id, snapshot in zip(job_ids, found, strict=True)
        if snapshot is None or (bodies and snapshot.state in ENDED)
    ]
    if gone and (ended := history.find(connection, number, gone, now_ms)):
        found = [
            history.snapshot(ended[job_id], snapshot, bodies) if job_id in ended else snapshot
            for job_id, snapshot in zip(job_ids, found, strict=True)
        ]
    if group_source(queue):
        found = [
            backlog.snapshot(connection, number, job_id, bodies=bodies) or snapshot
            if snapshot is None or snapshot.state == State.CANCELLED
            else snapshot
            for job_id, snapshot in zip(job_ids, found, strict=True)
        ]
    return found


def _snapshot(
    connection: sqlite3.Connection, queue: int, job_id: JobId, bodies: bool, now_ms: int
) -> JobSnapshot | None:
    sql = _WITH_BODIES if bodies else _WITHOUT_BODIES
    job = connection.execute(sql, (queue, job_id)).fetchone()
    reported = job is not None and job[5] & REPORTED
    row = connection.execute(_PROGRESS, (queue, job_id)).fetchone() if reported else None
    progress: bytes = row[0] if row else b""
    if job and job[0] != State.DEAD:
        # A verdict would be of an earlier job with this id.
        found = _of_job(job, b"", progress)
        return batches.with_gathered(connection, queue, found) if bodies else found
    kept = connection.execute(_RESULT, (queue, job_id, now_ms)).fetchone()
    verdict: bytes = kept[0] if kept else b""
    if job:
        cause = flows.cause_of(connection, queue, job_id) if bodies else b""
        return _of_job(job, verdict, progress, decode_cause(cause))
    try:
        return JobSnapshot(decode_verdict(verdict).state, verdict) if verdict else None
    except Malformed:
        return None


def _of_job(
    job: tuple[Any, ...], verdict: bytes, progress: bytes, cause: Cause | None = None
) -> JobSnapshot | None:
    state, time_ms, owner, count, reason, _, constraints, envelope, history, inputs = job
    if state not in _STATES:
        return None
    return JobSnapshot(
        State(state),
        verdict,
        due_ms=time_ms if state == State.SCHEDULED else None,
        worker=owner,
        deliveries=count,
        reason=reason,
        envelope=envelope,
        history=history,
        constraints=constraints,
        progress=progress,
        died_ms=time_ms if state == State.DEAD else None,
        cause=cause,
        inputs=inputs,
    )


def locate(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queues: Sequence[str],
    job_id: JobId,
    now_ms: int,
) -> list[str]:
    """The queues in which `get` finds the job, and the logs that hold the event."""
    asked = {"namespace": namespace, "names": json_of(queues), "job_id": job_id, "now_ms": now_ms}
    names = {name for (name,) in connection.execute(LOCATE, asked)}
    for name in queues:
        number = None if name in names else queue_id(connection, namespace, name)
        if number is not None and history.find(connection, number, [job_id], now_ms):
            names.add(name)
    return [queue for queue in queues if queue in names]


def ended(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    cursor: str,
    limit: int,
    state: State | None,
    now_ms: int,
    oddities: Oddities,
) -> EndedJobPage:
    """A page of the history, of each job only its last life."""
    start = positions_in(cursor)
    number = queue_id(connection, namespace, queue)
    if number is None:
        return EndedJobPage([], "")
    shelves = history.read(connection, number, start, limit)
    where = f"table history, queue {queue!r}"
    page = page_of(shelves, start, limit, now_ms, partial(oddities.note, where), state)
    job_ids = [job.job_id for job in page.jobs]
    again = entries.by_job_ids(connection, number, job_ids)
    last = history.find(connection, number, job_ids, now_ms)
    return last_lives(page, {id: job.ended_ms for id, job in last.items() if id not in again})


def queues(connection: sqlite3.Connection, namespace: str, *, oddities: Oddities) -> list[str]:
    found = connection.execute(_NAMES, (namespace,)).fetchall()
    names = oddities.texts("table queues", [raw for (raw,) in found])
    return sorted(name for name in names if not is_log(name) and not group_source(name))


def dead(
    connection: sqlite3.Connection, namespace: str, *, queue: str, cursor: str, limit: int
) -> DeadJobPage:
    number = queue_id(connection, namespace, queue)
    if cursor:
        before = numbers_in(cursor, 2, "dead jobs")
        rows = connection.execute(_DEAD, (number, *before, limit)).fetchall()
    else:
        rows = connection.execute(_LATEST_DEAD, (number, limit)).fetchall()
    jobs = [_dead_job(row) for row in rows]
    return DeadJobPage(jobs, jobs[-1].cursor if len(jobs) == limit else "")


def _dead_job(row: tuple[Any, ...]) -> DeadJob:
    id, time_ms, job_id, died_ms, reason, envelope, history, constraints = row
    readable = isinstance(reason, str) and "\N{REPLACEMENT CHARACTER}" not in reason
    # A time that is not a number sorts after all numbers; the id decides among those.
    cursor = f"{time_ms if isinstance(time_ms, int) else _AFTER_ALL}_{id}"
    said = reason if readable else UNREADABLE
    return DeadJob(job_id, died_ms, said, envelope, history, constraints, cursor)


def browse(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    state: State,
    cursor: str,
    limit: int,
    runner: Runner | None = None,
) -> JobIdPage:
    """A page of the jobs in a state. While a job stays in the state, it does not move back."""
    if state not in _PAGES:
        return JobIdPage([], "")
    sql, start = _PAGES[state]
    number = queue_id(connection, namespace, queue)
    if state == State.WAITING and number is not None and group_source(queue):
        return backlog.browse(connection, number, _PAGES[state], cursor, limit)
    after = numbers_in(cursor, len(start), f"{state} jobs") if cursor else start
    values = page_values(number, after, limit)
    if runner is not None and state == State.WAITING:
        values["last"] = FORMATS[runner]
        if not cursor:
            values |= {"first": FORMATS[runner], "second": -_AFTER_ALL}
    rows = connection.execute(sql, values).fetchall()
    following = "_".join(map(str, rows[-1][1:])) if len(rows) == limit else ""
    return JobIdPage([row[0] for row in rows], following)
