"""Reading the history of a queue: pages of it, and jobs by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.history.chunk import decode_chunk, find_mark
from headrace.store.history.page import UNREADABLE, Positions, Shelf, ShelfPosition

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.values import EndedJob

OLDEST = """
    SELECT id, CAST(count AS INTEGER) FROM history WHERE queue = ? AND shelf = ?
    ORDER BY id LIMIT ?"""
_SHELVES = """
    SELECT CAST(shelf AS TEXT), CAST(count AS INTEGER), CAST(most AS INTEGER),
        CAST(keep_ms AS INTEGER) FROM shelves WHERE queue = ?"""
_CHUNKS = """
    SELECT id, CAST(count AS INTEGER), CAST(data AS BLOB) FROM history
    WHERE queue = ? AND shelf = ? AND id <= ? ORDER BY id DESC"""
_MARKS = """
    SELECT id, CAST(marks AS BLOB) FROM history WHERE queue = ? AND shelf = ? AND id >= ?
        AND expires_ms > ? ORDER BY id DESC"""
DATA = "SELECT CAST(data AS BLOB) FROM history WHERE id = ?"
_LAST = 2**63 - 1
_MOST_BYTES = 4 * 1024 * 1024


def read(
    connection: sqlite3.Connection, queue: int, start: Positions | None, limit: int
) -> list[Shelf]:
    """Enough of each shelf for a page."""
    shelves = []
    for name, count, most, keep_ms in connection.execute(_SHELVES, (queue,)).fetchall():
        if start is None or name in start:
            at = start[name] if start else None
            first, hidden = _visible(connection, queue, name, count - most)
            chunks = list(_chunks(connection, queue, name, at, limit, first))
            shelves.append(Shelf(name, keep_ms, first, hidden, chunks))
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


def _visible(connection: sqlite3.Connection, queue: int, shelf: str, over: int) -> tuple[int, int]:
    """The oldest chunk that counts, and how many of its jobs are beyond the bound."""
    id = 0
    for id, count in connection.execute(OLDEST, (queue, shelf, _LAST)):
        if over < count:
            return id, max(0, over)
        over -= count
    return id + 1, 0


def find(
    connection: sqlite3.Connection, queue: int, job_ids: Sequence[JobId], now_ms: int
) -> dict[JobId, EndedJob]:
    """The kept ones of these jobs, by id; of one that ended twice, the last."""
    found: dict[JobId, EndedJob] = {}
    for _, _, jobs in found_in_chunks(connection, queue, job_ids, now_ms):
        for job in jobs:
            if job.job_id not in found or found[job.job_id].ended_ms < job.ended_ms:
                found[job.job_id] = job
    return found


def found_in_chunks(
    connection: sqlite3.Connection, queue: int, job_ids: Sequence[JobId], now_ms: int
) -> Iterator[tuple[int, str, list[EndedJob]]]:
    """Chunks with any of these jobs, the latest first: number, shelf, and the jobs."""
    for name, count, most, keep_ms in connection.execute(_SHELVES, (queue,)).fetchall():
        first, hidden = _visible(connection, queue, name, count - most)
        chunks = connection.execute(_MARKS, (queue, name, first, now_ms)).fetchall()
        for id, marks in chunks:
            places = [found for job_id in job_ids if (found := find_mark(marks, job_id))]
            if not places:
                continue
            jobs = _readable(connection, id)
            kept = [
                jobs[at]
                for at, _ in places
                if at < len(jobs)
                and (id > first or at >= hidden)
                and jobs[at].ended_ms + keep_ms > now_ms
            ]
            if kept:
                yield id, name, kept


def _readable(connection: sqlite3.Connection, id: int) -> list[EndedJob]:
    [(data,)] = connection.execute(DATA, (id,)).fetchall()
    try:
        return decode_chunk(data)
    except UNREADABLE:
        return []
