"""Reading the history of a queue: pages of it, and jobs by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.store.contract import JobSnapshot, ended_snapshot
from headrace.store.history.chunk import decode_chunk, find_marks
from headrace.store.history.page import UNREADABLE, Positions, Shelf, ShelfPosition

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.values import EndedJob

_SHELVES = "SELECT DISTINCT CAST(shelf AS TEXT) FROM history WHERE queue = ?"
_BOUNDS = """
    SELECT CAST(total AS INTEGER), CAST(most AS INTEGER), CAST(keep_ms AS INTEGER) FROM history
    WHERE queue = ? AND shelf = ? ORDER BY id DESC LIMIT 1"""
_FIRST = """
    SELECT id, CAST(count AS INTEGER), CAST(total AS INTEGER) FROM history
    WHERE queue = ? AND shelf = ? AND total > ? ORDER BY id LIMIT 1"""
_CHUNKS = """
    SELECT id, CAST(count AS INTEGER), CAST(data AS BLOB) FROM history
    WHERE queue = ? AND shelf = ? AND id <= ? ORDER BY id DESC"""
_MARKS = """
    SELECT id, CAST(marks AS BLOB) FROM history WHERE queue = ? AND shelf = ? AND id >= ?
        AND expires_ms > ? ORDER BY id DESC"""
DATA = "SELECT CAST(data AS BLOB) FROM history WHERE id = ?"
_LAST = 2**63 - 1
_MOST_BYTES = 4 * 1024 * 1024


class _KeptPart(NamedTuple):
    """What counts of a shelf: chunks from `first` on, of that one without `hidden` jobs."""

    shelf: str
    keep_ms: int
    first: int
    hidden: int


def read(
    connection: sqlite3.Connection, queue: int, start: Positions | None, limit: int
) -> list[Shelf]:
    """Enough of each shelf for a page."""
    shelves = []
    for each in _visible(connection, queue):
        if start is None or each.shelf in start:
            at = start[each.shelf] if start else None
            chunks = list(_chunks(connection, queue, each.shelf, at, limit, each.first))
            shelves.append(Shelf(*each, chunks))
    return shelves


def _chunks(
    connection: sqlite3.Connection,
    queue: int,
    shelf: str,
    at: ShelfPosition | None,
    limit: int,
    first: int,
) -> Iterator[tuple[int, bytes]]:
    jobs = size = 0
    from_id = at.chunk if at else _LAST
    for id, count, data in connection.execute(_CHUNKS, (queue, shelf, from_id)):
        if id < first or jobs >= limit or size > _MOST_BYTES:
            return
        yield id, data
        jobs += min(count, at.place) if at and id == at.chunk else count
        size += len(data)


def _visible(connection: sqlite3.Connection, queue: int) -> Iterator[_KeptPart]:
    for (shelf,) in connection.execute(_SHELVES, (queue,)).fetchall():
        bounds = connection.execute(_BOUNDS, (queue, shelf)).fetchone()
        if bounds is None:
            # A name that is not text.
            continue
        last, most, keep_ms = bounds
        over = last - most
        for first, count, total in connection.execute(_FIRST, (queue, shelf, over)):
            # Of what is left of the chunk, the last ones are within the bound.
            yield _KeptPart(shelf, keep_ms, first, max(0, count - (total - over)))


def find(
    connection: sqlite3.Connection, queue: int, job_ids: Sequence[JobId], now_ms: int
) -> dict[JobId, EndedJob]:
    """The kept ones of these jobs, by id; of one that ended twice, the last."""
    found: dict[JobId, EndedJob] = {}
    for _, jobs in found_in_chunks(connection, queue, job_ids, now_ms, only_last=True):
        for job in jobs:
            if job.job_id not in found or found[job.job_id].ended_ms < job.ended_ms:
                found[job.job_id] = job
    return found


def snapshot(job: EndedJob, result: JobSnapshot | None, bodies: bool) -> JobSnapshot:
    """What is known of an ended job, and of its result."""
    if bodies:
        return ended_snapshot(job, result.verdict if result else b"")
    # Its result has expired: the one that the history has is for people.
    return JobSnapshot(job.state)


def found_in_chunks(
    connection: sqlite3.Connection,
    queue: int,
    job_ids: Sequence[JobId],
    now_ms: int,
    *,
    only_last: bool = False,
) -> Iterator[tuple[int, list[EndedJob]]]:
    """Chunks with any of these jobs, the latest first: number, and the jobs. With `only_last`, a
    shelf is searched until it has each job once."""
    for name, keep_ms, first, hidden in list(_visible(connection, queue)):
        wanted = list(job_ids)
        for id, marks in connection.execute(_MARKS, (queue, name, first, now_ms)):
            places = find_marks(marks, wanted)
            if not places:
                continue
            jobs = _readable(connection, id)
            inside = [(at, jobs[at]) for at in places if at < len(jobs)]
            kept = [
                job
                for at, job in inside
                if (id > first or at >= hidden) and job.ended_ms + keep_ms > now_ms
            ]
            if kept:
                yield id, kept
            if only_last:
                seen = {job.job_id for _, job in inside}
                wanted = [job_id for job_id in wanted if job_id not in seen]
                if not wanted:
                    break


def _readable(connection: sqlite3.Connection, id: int) -> list[EndedJob]:
    [(data,)] = connection.execute(DATA, (id,)).fetchall()
    try:
        return decode_chunk(data)
    except UNREADABLE:
        return []
