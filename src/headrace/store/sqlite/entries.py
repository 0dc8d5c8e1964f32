"""A job row, without its body, for transitions that need more than enqueueing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.core.job.constraints import Constraints, decode_constraints
from headrace.store.sqlite.rows import run_rows, select_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.delivery import Receipt
    from headrace.core.job.ids import JobId

# What there is of a job beyond its row. Most jobs have none of it, and pay for none of it.
CANCELLING = 1  # as in the index `jobs_cancelling`
CONSTRAINED = 2  # a lane, a unique name, limits or a batch to gather in
PASSED = 4  # let through the limits of its task, not begun
CHILDREN = 8
MARKED = 16
REPORTED = 32
LADEN = 64  # a history, constraints or inputs, which are delivered with it
IN_FLOW = 128  # counted with a flow
QUEUE_PASSED = 256  # let through the limit of its queue, not begun
BATCHED = 512  # has gathered in the batch that its row names
ATTACHED = CANCELLING | CONSTRAINED | PASSED | QUEUE_PASSED | CHILDREN | MARKED | REPORTED | IN_FLOW

FLOW_GATE = "f"


def lane_gate(lane: str) -> str:
    return f"k{lane}"


def limit_gate(limit: str) -> str:
    return f"r{limit}"


def batch_gate(name: str) -> str:
    return f"b{name}"


def pause_gate(task: str) -> str:
    return f"t{task}"


# Enough of an envelope for the longest id and the longest name of a task.
_HEAD = 1100
# A column can hold a value of any type: it is read as the type that it should have.
COLUMNS = f"""jobs.id, jobs.job_id, jobs.state, CAST(jobs.position AS INTEGER),
    CAST(jobs.time_ms AS INTEGER), CAST(jobs.flags AS INTEGER), CAST(jobs.lane AS TEXT),
    CAST(jobs.task_lane AS TEXT), CAST(jobs.gate AS TEXT), CAST(jobs.reason AS TEXT),
    CAST(jobs.constraints AS BLOB), CAST(substr(jobs.envelope, 1, {_HEAD}) AS BLOB)"""
_BY_IDS = f"SELECT {COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_BY_KEYS = f"""
    WITH named (queue, job_id) AS (VALUES {{rows}})
    SELECT {COLUMNS} FROM named JOIN jobs
        ON jobs.queue = named.queue AND jobs.job_id = named.job_id"""
_DEAD_BY_KEYS = f"{_BY_KEYS} AND jobs.state = 'dead'"
_BLOCKED_AT = f"""
    SELECT {COLUMNS} FROM jobs WHERE queue = ? AND gate = ? AND gate != ''
    ORDER BY position LIMIT ?"""
_HEADS = f"""
    WITH line (queue, gate) AS (VALUES {{rows}})
    SELECT {COLUMNS} FROM line JOIN jobs ON jobs.id = (
        SELECT id FROM jobs WHERE queue = line.queue AND gate = line.gate AND gate != ''
        ORDER BY position LIMIT 1)"""
_DUE = f"""
    SELECT {COLUMNS} FROM jobs WHERE queue = ? AND state = 'scheduled' AND time_ms <= ?
    ORDER BY time_ms, id LIMIT ?"""
_CANCELLING = f"""
    SELECT {COLUMNS} FROM jobs WHERE queue = ? AND flags & 1 AND state = 'running'
        AND (time_ms <= ? OR owner = ?)"""
_SAVE = """
    WITH new (id, state, position, time_ms, flags, lane, task_lane, gate, reason)
        AS (VALUES {rows})
    UPDATE jobs SET state = new.state, position = new.position, time_ms = new.time_ms,
        flags = new.flags, lane = new.lane, task_lane = new.task_lane, gate = new.gate,
        reason = new.reason
    FROM new WHERE jobs.id = new.id"""
_SAVE_SETTLED = """
    WITH new (id, place, history, state, position, time_ms, flags, lane, task_lane, gate, reason)
        AS (VALUES {rows})
    UPDATE jobs SET id = new.place, history = new.history, state = new.state,
        position = new.position, time_ms = new.time_ms, flags = new.flags, lane = new.lane,
        task_lane = new.task_lane, gate = new.gate, reason = new.reason, count = 0, owner = ''
    FROM new WHERE jobs.id = new.id"""
_FLAG = """
    WITH named (queue, job_id, flag) AS (VALUES {rows})
    UPDATE jobs SET flags = flags | named.flag FROM named
    WHERE jobs.queue = named.queue AND jobs.job_id = named.job_id"""
_DELETE = "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))"


class Entry(msgspec.Struct, gc=False):
    id: int
    job_id: JobId
    state: str
    position: int
    time_ms: int
    flags: int = 0
    lane: str = ""
    task_lane: str = ""
    gate: str = ""
    reason: str = ""
    raw_constraints: bytes = b""
    head: bytes = b""
    """The first bytes of its envelope."""
    decoded: Constraints | None = None

    @property
    def constraints(self) -> Constraints:
        if self.decoded is None:
            self.decoded = decode_constraints(self.raw_constraints)
        return self.decoded

    def block_at(self, gate: str, reason: str) -> None:
        """Block the job at a gate."""
        self.state, self.time_ms, self.gate, self.reason = "blocked", 0, gate, reason

    def be_ready(self, now_ms: int) -> None:
        self.state, self.time_ms, self.gate, self.reason = "waiting", now_ms, "", ""

    @property
    def place(self) -> tuple[str, int, int, int, str, str, str, str]:
        return (
            self.state, self.position, self.time_ms, self.flags, self.lane, self.task_lane,
            self.gate, self.reason,
        )  # fmt: skip


def flags_again(entry: Entry) -> int:
    """The flags of a dead job that is not dead any more."""
    kept = entry.flags & (MARKED | REPORTED | LADEN | CHILDREN | IN_FLOW)
    return kept | (CONSTRAINED if is_constrained(entry.constraints) else 0)


def is_constrained(constraints: Constraints) -> bool:
    """Whether a move of the job, or its end, has more to do than that of others."""
    return bool(
        constraints.lane
        or constraints.task_lane
        or constraints.limits
        or constraints.unique
        or constraints.gathering
    )


def by_ids(connection: sqlite3.Connection, ids: Sequence[Receipt]) -> dict[Receipt, Entry]:
    found = connection.execute(_BY_IDS, (json_of(ids),)).fetchall()
    return {row[0]: Entry(*row) for row in found}


def by_job_ids(
    connection: sqlite3.Connection, queue: int, job_ids: Iterable[JobId]
) -> dict[JobId, Entry]:
    rows = [(queue, job_id) for job_id in dict.fromkeys(job_ids)]
    return {row[1]: Entry(*row) for row in select_rows(connection, _BY_KEYS, rows)}


def dead_of(
    connection: sqlite3.Connection, queue: int, job_ids: Iterable[JobId]
) -> dict[JobId, Entry]:
    """Those of these jobs that are dead."""
    rows = [(queue, job_id) for job_id in dict.fromkeys(job_ids)]
    return {row[1]: Entry(*row) for row in select_rows(connection, _DEAD_BY_KEYS, rows)}


def blocked_at(connection: sqlite3.Connection, queue: int, gate: str, limit: int) -> list[Entry]:
    """The first jobs blocked at a gate, in order."""
    found = connection.execute(_BLOCKED_AT, (queue, gate, limit)).fetchall()
    return [Entry(*row) for row in found]


def heads(connection: sqlite3.Connection, queue: int, gates: Iterable[str]) -> dict[str, Entry]:
    """The first job blocked at each of these gates, by gate."""
    found = select_rows(connection, _HEADS, [(queue, gate) for gate in gates])
    return {entry.gate: entry for entry in (Entry(*row) for row in found)}


def due(connection: sqlite3.Connection, queue: int, now_ms: int, limit: int) -> list[Entry]:
    """Scheduled jobs that are due, the earliest first."""
    found = connection.execute(_DUE, (queue, now_ms, limit)).fetchall()
    return [Entry(*row) for row in found]


def cancelling(
    connection: sqlite3.Connection, queue: int, *, expired_ms: int = -1, owner: str = ""
) -> list[Entry]:
    """Running jobs that were cancelled, and whose lease is over or is held by `owner`."""
    found = connection.execute(_CANCELLING, (queue, expired_ms, owner)).fetchall()
    return [Entry(*row) for row in found]


def save(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Write the present places of jobs."""
    run_rows(connection, _SAVE, [(entry.id, *entry.place) for entry in entries])


def save_settled(
    connection: sqlite3.Connection, settled: Sequence[tuple[Entry, int, bytes]]
) -> None:
    """Write the places of jobs that were running, with their new row ids and histories."""
    for entry, _, _ in settled:
        entry.flags |= LADEN
    rows = [(entry.id, place, history, *entry.place) for entry, place, history in settled]
    run_rows(connection, _SAVE_SETTLED, rows)


def flag(connection: sqlite3.Connection, queue: int, job_ids: Iterable[JobId], flag: int) -> int:
    """Set a flag on these jobs; returns how many of them there are."""
    return run_rows(connection, _FLAG, [(queue, job_id, flag) for job_id in dict.fromkeys(job_ids)])


def delete(connection: sqlite3.Connection, ids: Sequence[Receipt]) -> None:
    connection.execute(_DELETE, (json_of(ids),))


def json_of(ids: Sequence[object]) -> str:
    return msgspec.json.encode(ids).decode()
