"""Writing the history of a queue: chunks of ended jobs, as `store/history/chunk.py` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.state import State
from headrace.core.job.verdict import CANCELLED_VERDICT
from headrace.store.history.block import MARK, Blocks, encode_jobs
from headrace.store.history.chunk import FULL, decode_chunk, encode_frame, find_mark, without
from headrace.store.sqlite.entries import REPORTED
from headrace.store.sqlite.inspection import history, progress_log
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.rows import bounded_ms, select_rows
from headrace.store.values import EndedJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_TAIL = """
    SELECT id, CAST(last_ms AS INTEGER), length(CAST(data AS BLOB)) FROM history
    WHERE queue = ? AND shelf = ? ORDER BY id DESC LIMIT 1"""
_ADD = """
    UPDATE history SET count = count + ?, last_ms = ?, expires_ms = ?,
        marks = CAST(marks || ? AS BLOB), data = CAST(data || ? AS BLOB) WHERE id = ?"""
_BEGIN = """
    INSERT INTO history (id, queue, shelf, count, last_ms, expires_ms, marks, data)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_COUNT = """
    INSERT INTO shelves (queue, shelf, count, most, keep_ms) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = max(0, count + excluded.count), most = excluded.most,
        keep_ms = excluded.keep_ms
    RETURNING count"""
_EXPIRED = (
    "SELECT id, queue, shelf, CAST(count AS INTEGER) FROM history WHERE expires_ms <= ? LIMIT ?"
)
_DROP = "DELETE FROM history WHERE id = ?"
_UNCOUNT = "UPDATE shelves SET count = max(0, count - ?) WHERE queue = ? AND shelf = ?"
_BODIES = """
    WITH named (id) AS (VALUES {rows})
    SELECT jobs.id, CAST(envelope AS BLOB), CAST(history AS BLOB), CAST(constraints AS BLOB)
    FROM named JOIN jobs ON jobs.id = named.id"""
_PROGRESS = """
    WITH named (queue, job_id) AS (VALUES {rows})
    SELECT progress.job_id, CAST(value AS BLOB) FROM named JOIN progress
        ON progress.queue = named.queue AND progress.job_id = named.job_id"""
_REPLACE = "UPDATE history SET count = ?, marks = ?, data = ? WHERE id = ?"
_FORGET_RESULT = """
    DELETE FROM results WHERE queue = ? AND job_id = ? AND expires_ms > ? RETURNING 1"""
_IS_LIVE = "SELECT 1 FROM jobs WHERE queue = ? AND job_id = ?"
_DROPPED_TOGETHER = 100


def write(
    change: Change, blocks: Sequence[Blocks], progress: Mapping[JobId, bytes] | None = None
) -> None:
    """Keep jobs that have ended, within the bounds. `progress` is what some of them reported."""
    for shelf, bounds, marks, data in blocks:
        reported = {}
        for job_id, value in (progress or {}).items():
            if found := find_mark(marks, job_id):
                reported[found[0]] = value
        count = len(marks) // MARK
        _put(change, shelf, bounds.keep_ms, count, marks, reported, data)
        values = (change.number, shelf, count, bounds.most, bounds.keep_ms)
        [(total,)] = change.connection.execute(_COUNT, values).fetchall()
        _drop_over(change, shelf, total - bounds.most)
        drop_expired(change, 2)


def _put(
    change: Change,
    shelf: str,
    keep_ms: int,
    count: int,
    marks: bytes,
    progress: Mapping[int, bytes],
    block: bytes,
) -> None:
    connection = change.connection
    tail = connection.execute(_TAIL, (change.number, shelf)).fetchone()
    # Times in a shelf never go back, though the clock may.
    ended_ms = max(change.now_ms, tail[1]) if tail else change.now_ms
    frame = encode_frame(ended_ms, progress, block)
    expires_ms = bounded_ms(ended_ms + keep_ms)
    if tail and tail[2] < FULL:
        connection.execute(_ADD, (count, ended_ms, expires_ms, marks, frame, tail[0]))
    else:
        place = (change.new_numbers(1), change.number, shelf)
        connection.execute(_BEGIN, (*place, count, ended_ms, expires_ms, marks, frame))


def _drop_over(change: Change, shelf: str, over: int) -> None:
    """Delete the chunks that are wholly beyond the bound."""
    if over <= 0:
        return
    chunks = change.connection.execute(history.OLDEST, (change.number, shelf, _DROPPED_TOGETHER))
    for id, count in chunks.fetchall():
        over -= count
        if over < 0:
            return
        _drop(change, id, change.number, shelf, count)


def drop_expired(change: Change, limit: int = _DROPPED_TOGETHER) -> None:
    """Delete chunks, of any queue, whose time is over."""
    for row in change.connection.execute(_EXPIRED, (change.now_ms, limit)).fetchall():
        _drop(change, *row)


def _drop(change: Change, id: int, queue: int, shelf: str, count: int) -> None:
    change.connection.execute(_DROP, (id,))
    change.connection.execute(_UNCOUNT, (count, queue, shelf))


def write_cancelled(change: Change, cancelled: Sequence[Entry]) -> None:
    """Keep jobs that are cancelled without a worker; their rows must still be there."""
    if not change.keeps_history:
        return
    bodies = {
        row[0]: row[1:]
        for row in select_rows(change.connection, _BODIES, [(entry.id,) for entry in cancelled])
    }
    jobs = []
    for entry in cancelled:
        envelope, history, constraints = bodies[entry.id]
        jobs.append(
            EndedJob(
                entry.job_id, State.CANCELLED, change.now_ms, task_of(envelope),
                envelope=envelope, history=history, constraints=constraints,
                verdict=CANCELLED_VERDICT,
            )
        )  # fmt: skip
    reported = [entry.job_id for entry in cancelled if entry.flags & REPORTED]
    write_jobs(change, jobs, progress_of(change, reported))


def write_jobs(
    change: Change, jobs: Sequence[EndedJob], progress: Mapping[JobId, bytes] | None = None
) -> None:
    """Keep jobs of any tasks."""
    for job in jobs:
        shelf, bounds = change.history_rules.of(job.task)
        if bounds is not None:
            write(change, [Blocks(shelf, bounds, *encode_jobs([job]))], progress)


def progress_of(change: Change, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
    """What these jobs last reported."""
    rows = [(change.number, job_id) for job_id in job_ids]
    return dict(select_rows(change.connection, _PROGRESS, rows))


def forget(change: Change, job_ids: Sequence[JobId]) -> list[bool]:
    """Delete ended jobs with their results and logs; returns for each id whether it was of one."""
    connection, queue = change.connection, change.number
    ended = [
        job_id
        for job_id in job_ids
        if connection.execute(_IS_LIVE, (queue, job_id)).fetchone() is None
    ]
    forgotten: set[JobId] = set()
    for id, shelf, jobs in list(history.found_in_chunks(connection, queue, ended, change.now_ms)):
        gone = {job.job_id for job in jobs}
        [(data,)] = connection.execute(history.DATA, (id,)).fetchall()
        marks, left, _ = without(data, gone)
        count = len(marks) // MARK
        before = len(decode_chunk(data))
        connection.execute(_REPLACE, (count, marks, left, id))
        connection.execute(_UNCOUNT, (before - count, queue, shelf))
        forgotten |= gone
    for job_id in ended:
        if connection.execute(_FORGET_RESULT, (queue, job_id, change.now_ms)).fetchall():
            forgotten.add(job_id)
    progress_log.forget_logs(change, sorted(forgotten))
    return [job_id in forgotten for job_id in job_ids]
