"""Writing the history of a queue: chunks of ended jobs, as `store/history/chunk.py` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.state import State
from headrace.core.job.verdict import CANCELLED_VERDICT
from headrace.store.history.block import MARK, Blocks, encode_jobs
from headrace.store.history.chunk import FULL, encode_frame, find_mark, without
from headrace.store.sqlite.entries import REPORTED
from headrace.store.sqlite.inspection import history, progress_log
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.rows import bounded_ms, select_rows
from headrace.store.values import EndedJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.core.job.history_rules import HistoryBounds
    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_TAIL = """
    SELECT id, CAST(last_ms AS INTEGER), CAST(total AS INTEGER), length(data)
    FROM history WHERE queue = ? AND shelf = ? ORDER BY id DESC LIMIT 1"""
_ADD = """
    UPDATE history SET count = count + :count, total = :total, most = :most, keep_ms = :keep_ms,
        last_ms = :ended_ms, expires_ms = :expires_ms, marks = CAST(marks || :marks AS BLOB),
        data = CAST(data || :data AS BLOB)
    WHERE id = :id"""
_BEGIN = """
    INSERT INTO history (
        queue, shelf, count, total, most, keep_ms, last_ms, expires_ms, marks, data)
    VALUES (
        :queue, :shelf, :count, :total, :most, :keep_ms, :ended_ms, :expires_ms, :marks, :data)"""
_DROP_OVER = "DELETE FROM history WHERE queue = ? AND shelf = ? AND total <= ?"
_DROP_EXPIRED = """
    DELETE FROM history WHERE id IN (SELECT id FROM history WHERE expires_ms <= ? LIMIT ?)"""
_BODIES = """
    WITH named (id) AS (VALUES {rows})
    SELECT jobs.id, CAST(envelope AS BLOB), CAST(history AS BLOB), CAST(constraints AS BLOB),
        CAST(inputs AS BLOB)
    FROM named JOIN jobs ON jobs.id = named.id"""
_PROGRESS = """
    WITH named (queue, job_id) AS (VALUES {rows})
    SELECT progress.job_id, CAST(value AS BLOB) FROM named JOIN progress
        ON progress.queue = named.queue AND progress.job_id = named.job_id"""
_REPLACE = "UPDATE history SET marks = ?, data = ? WHERE id = ?"
_FORGET_RESULT = """
    DELETE FROM results WHERE queue = ? AND job_id = ? AND expires_ms > ? RETURNING 1"""
_IS_LIVE = "SELECT 1 FROM jobs WHERE queue = ? AND job_id = ?"
_DROPPED_TOGETHER = 100
_WRITTEN_TOGETHER = 500


def write(
    change: Change, blocks: Sequence[Blocks], progress: Mapping[JobId, bytes] | None = None
) -> None:
    """Keep jobs that have ended, within the bounds. `progress` is what some of them reported."""
    for each in blocks:
        reported = {}
        for job_id, value in (progress or {}).items():
            if found := find_mark(each.marks, job_id):
                reported[found[0]] = value
        total = _put(change, each, reported)
        if total > each.bounds.most:
            over = (change.number, each.shelf, total - each.bounds.most)
            change.connection.execute(_DROP_OVER, over)


def _put(change: Change, blocks: Blocks, progress: Mapping[int, bytes]) -> int:
    """Add to the last chunk, or begin another; returns how many jobs the shelf has ever had."""
    tail = change.connection.execute(_TAIL, (change.number, blocks.shelf)).fetchone()
    id, last_ms, total, size = tail or (0, 0, 0, FULL)
    # Times in a shelf never go back, though the clock may.
    ended_ms = max(change.now_ms, last_ms)
    count = len(blocks.marks) // MARK
    values = {
        "id": id,
        "queue": change.number,
        "shelf": blocks.shelf,
        "count": count,
        "total": total + count,
        "most": blocks.bounds.most,
        "keep_ms": blocks.bounds.keep_ms,
        "ended_ms": ended_ms,
        "expires_ms": bounded_ms(ended_ms + blocks.bounds.keep_ms),
        "marks": blocks.marks,
        "data": encode_frame(ended_ms, progress, blocks.data),
    }
    change.connection.execute(_BEGIN if size >= FULL else _ADD, values)
    return total + count


def drop_expired(change: Change) -> None:
    """Delete chunks, of any queue, whose time is over."""
    change.connection.execute(_DROP_EXPIRED, (change.now_ms, _DROPPED_TOGETHER))


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
        envelope, history, constraints, inputs = bodies[entry.id]
        jobs.append(
            EndedJob(
                entry.job_id, State.CANCELLED, change.now_ms, task_of(envelope),
                envelope=envelope, history=history, constraints=constraints,
                verdict=CANCELLED_VERDICT, inputs=inputs,
            )
        )  # fmt: skip
    reported = [entry.job_id for entry in cancelled if entry.flags & REPORTED]
    write_jobs(change, jobs, progress_of(change, reported))


def write_jobs(
    change: Change, jobs: Sequence[EndedJob], progress: Mapping[JobId, bytes] | None = None
) -> None:
    """Keep jobs of any tasks that one worker, or none, has ended."""
    shelves: dict[tuple[str, HistoryBounds | None], list[EndedJob]] = {}
    for job in jobs:
        shelves.setdefault(change.history_rules.of(job.task), []).append(job)
    for (shelf, bounds), mine in shelves.items():
        if bounds is not None:
            last = mine[-bounds.most :]
            for at in range(0, len(last), _WRITTEN_TOGETHER):
                part = last[at : at + _WRITTEN_TOGETHER]
                write(change, [Blocks(shelf, bounds, *encode_jobs(part))], progress)


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
    for id, jobs in list(history.found_in_chunks(connection, queue, ended, change.now_ms)):
        [(data,)] = connection.execute(history.DATA, (id,)).fetchall()
        connection.execute(_REPLACE, (*without(data, set(ended)), id))
        forgotten.update(job.job_id for job in jobs)
    for job_id in ended:
        if connection.execute(_FORGET_RESULT, (queue, job_id, change.now_ms)).fetchall():
            forgotten.add(job_id)
    progress_log.forget_logs(change, sorted(forgotten))
    return [job_id in forgotten for job_id in job_ids]
