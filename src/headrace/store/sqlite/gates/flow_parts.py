"""The jobs of flows, counted by queue and state."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.core.bounds import FLOW_COUNTED_MS
from headrace.core.flow.counts import FlowCounts
from headrace.core.job.ids import to_text
from headrace.core.job.state import State
from headrace.store.flow_values import FlowPart
from headrace.store.sqlite.rows import queue_id, run_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change

_ADD = """
    INSERT INTO flow_parts (flow, queue, expires_ms, done, dead, cancelled) VALUES {rows}
    ON CONFLICT DO UPDATE SET done = done + excluded.done, dead = dead + excluded.dead,
        cancelled = cancelled + excluded.cancelled, expires_ms = excluded.expires_ms"""
_LEFT = "SELECT done, dead, cancelled FROM flow_parts WHERE flow = ? AND queue = ?"
_LIVE = """
    SELECT CAST(state AS TEXT), count(*) FROM jobs WHERE queue = ? AND flow = ? AND flow != ''
    GROUP BY state"""
_MEMBERS = """
    SELECT job_id, state FROM jobs WHERE queue = :queue AND flow = :flow AND flow != '' AND (
        state != 'dead' OR NOT EXISTS (
            SELECT 1 FROM parents WHERE parents.queue = :queue AND parents.child = jobs.job_id
                AND failed_ms > 0))"""
_OTHERS = """
    SELECT CAST(name AS TEXT) FROM flow_parts JOIN queues ON queues.id = flow_parts.queue
    WHERE flow = ? AND namespace = ?"""
_BEGIN = """
    DELETE FROM flow_parts WHERE flow = :flow AND queue = :queue AND NOT EXISTS (
        SELECT 1 FROM jobs WHERE queue = :queue AND flow = :flow AND flow != '')"""
_DROP = """
    DELETE FROM flow_parts WHERE expires_ms <= ? AND NOT EXISTS (
        SELECT 1 FROM jobs WHERE jobs.queue = flow_parts.queue AND jobs.flow = flow_parts.flow
            AND jobs.flow != '')"""


def begin(change: Change, flows: Iterable[str]) -> None:
    """Count flows anew that have no jobs in this queue."""
    for flow in flows:
        change.connection.execute(_BEGIN, {"flow": flow, "queue": change.number})


def join(change: Change, flows: Iterable[str]) -> None:
    """Say that flows have jobs in this queue."""
    _add(change, {flow: Counter() for flow in flows})


def leave(change: Change, left: Sequence[tuple[str, State]]) -> None:
    """Count jobs whose rows are about to go, each with its flow, in their last states."""
    flows: dict[str, Counter[State]] = {}
    for flow, state in left:
        flows.setdefault(flow, Counter())[state] += 1
    _add(change, flows)


def _add(change: Change, flows: dict[str, Counter[State]]) -> None:
    expires_ms = change.now_ms + FLOW_COUNTED_MS
    rows = [
        (flow, change.number, expires_ms, c[State.DONE], c[State.DEAD], c[State.CANCELLED])
        for flow, c in flows.items()
        if flow
    ]
    run_rows(change.connection, _ADD, rows)


def drop_expired(connection: sqlite3.Connection, now_ms: int) -> None:
    connection.execute(_DROP, (now_ms,))


def flow_part(
    connection: sqlite3.Connection, namespace: str, *, queue: str, flow: JobId, members: bool
) -> FlowPart:
    """See `headrace.store.contract.Store.flow_part`."""
    number, name = queue_id(connection, namespace, queue), to_text(flow)
    found = connection.execute(_OTHERS, (name, namespace)).fetchall()
    others = tuple(other for (other,) in found if other != queue)
    known = set(State)
    states = {
        state: count
        for state, count in connection.execute(_LIVE, (number, name)).fetchall()
        if state in known
    }
    counts = FlowCounts(**states)
    left = connection.execute(_LEFT, (name, number)).fetchone()
    if left:
        done, dead, cancelled = left
        counts += FlowCounts(done=done, dead=dead, cancelled=cancelled)
    if not members:
        return FlowPart(counts, others)
    rows = connection.execute(_MEMBERS, {"queue": number, "flow": name}).fetchall()
    live = tuple(job_id for job_id, state in rows if state != State.DEAD)
    failed = tuple(job_id for job_id, state in rows if state == State.DEAD)
    return FlowPart(counts, others, live, failed)
