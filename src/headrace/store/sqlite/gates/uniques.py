"""Unique names: one job stands for all that are sent under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.sqlite.rows import bounded_ms, run_rows, select_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_TAKEN = """
    WITH named (queue, name, now_ms) AS (VALUES {rows})
    SELECT uniques.name, uniques.job_id FROM named JOIN uniques
        ON uniques.queue = named.queue AND uniques.name = named.name
    WHERE uniques.until_ms IS NULL OR uniques.until_ms > named.now_ms"""
_TAKE = "INSERT OR REPLACE INTO uniques (queue, name, job_id) VALUES {rows}"
_TAKE_IF_FREE = """
    INSERT INTO uniques (queue, name, job_id) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET job_id = excluded.job_id, until_ms = NULL
    WHERE uniques.job_id = excluded.job_id OR uniques.until_ms <= ?"""
_FREE = """
    WITH named (queue, name, job_id) AS (VALUES {rows})
    DELETE FROM uniques WHERE name IN (
        SELECT named.name FROM named JOIN uniques AS taken
            ON taken.queue = named.queue AND taken.name = named.name
                AND taken.job_id = named.job_id)
        AND queue = ?"""
_FREE_LATER = """
    WITH named (queue, name, job_id, until_ms) AS (VALUES {rows})
    UPDATE uniques SET until_ms = named.until_ms FROM named
    WHERE uniques.queue = named.queue AND uniques.name = named.name
        AND uniques.job_id = named.job_id"""


def taken(change: Change, names: Iterable[str]) -> dict[str, JobId]:
    """The names that are taken, each with its job."""
    rows = [(change.number, name, change.now_ms) for name in names]
    return dict(select_rows(change.connection, _TAKEN, rows))


def take(change: Change, names: Sequence[tuple[str, JobId]]) -> None:
    """Give free names to jobs."""
    run_rows(change.connection, _TAKE, [(change.number, name, job_id) for name, job_id in names])


def take_again(change: Change, entry: Entry) -> None:
    """Give a replayed job its name back, unless another has it."""
    if entry.constraints.unique and not entry.constraints.debounced:
        named = (change.number, entry.constraints.unique, entry.job_id, change.now_ms)
        change.connection.execute(_TAKE_IF_FREE, named)


def end(change: Change, ended: Iterable[Entry]) -> None:
    """Free the names of ending jobs, now or when their time is over."""
    named = [entry for entry in ended if entry.constraints.unique]
    later = [e for e in named if e.constraints.unique_for_ms > 0 and not e.constraints.debounced]
    free(change, [e for e in named if not e.constraints.unique_for_ms or e.constraints.debounced])
    rows = [
        (
            change.number,
            e.constraints.unique,
            e.job_id,
            bounded_ms(change.now_ms + e.constraints.unique_for_ms),
        )
        for e in later
    ]
    run_rows(change.connection, _FREE_LATER, rows)


def free(change: Change, entries: Iterable[Entry]) -> None:
    """Free the names that these jobs still have."""
    rows = [(change.number, entry.constraints.unique, entry.job_id) for entry in entries]
    run_rows(change.connection, _FREE, rows, change.number)
