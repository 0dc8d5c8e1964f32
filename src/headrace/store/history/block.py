"""Ended jobs as they are kept: one block for all that are settled together.

A *block* has a column for each field, as in `fact_block.py`: an ended job costs no object and no
entry of its own. `chunk.py` says how a store keeps blocks. Beside each block go the *marks*
of its jobs, by which one of them is found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from headrace.core.job.history_rules import HistoryBounds, HistoryRules
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Done
from headrace.core.job.state import State
from headrace.core.job.tally import Settled, SettledColumns
from headrace.store.fact_block import FactBlock, encode_block, encode_settled
from headrace.store.values import EndedJob

_T = TypeVar("_T")

MOST_BYTES = 16_384
"""Of arguments, of a result and of inputs; larger ones are left out. A thousand of them go in one
request."""
MARK = 17
"""Bytes of a mark: `mark_of` the job, and a letter for its state."""
ID = 16
LETTERS = {State.DONE: b"d", State.CANCELLED: b"c"}
_NO_MARK = bytes(MARK)
"""In the place of a job that was forgotten."""

_encode = msgspec.msgpack.Encoder().encode


class MoreOfJob(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What few jobs have."""

    history: bytes = b""
    constraints: bytes = b""
    started_ms: int = 0
    """If the facts have none."""
    inputs: bytes = b""


class EndedBlock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Jobs by column, in the order in which they ended. A column is a list, or one value that all
    jobs have."""

    facts: FactBlock
    worker: str
    ready: bytes | int | list[int]
    """When they began to wait, in ms; as bytes, receipts that begin with it, with spaces
    between."""
    sizes: int | list[int]
    envelopes: bytes
    """All envelopes, one after the other. One without bytes was too large to keep."""
    verdicts: bytes | list[bytes]
    more: dict[int, MoreOfJob] = {}
    """What few jobs have, by place."""


class Blocks(NamedTuple):
    """What of a settle goes to one shelf."""

    shelf: str
    bounds: HistoryBounds
    marks: bytes
    data: bytes


def blocks_of(
    rules: HistoryRules,
    settled: Sequence[Settled],
    worker: str,
    columns: SettledColumns | None = None,
    facts: bytes = b"",
) -> list[Blocks]:
    """The blocks of the done jobs among these, one for each shelf. `columns` and `facts` are those
    of all of them, if the caller has them."""
    if not rules.keeps_any:
        return []
    if columns is not None and _is_alike(rules, columns):
        shelf, bounds = rules.of(columns.tasks[0])
        if bounds is None or len(settled) <= bounds.most:
            return [_block(shelf, bounds, columns, worker, facts)] if bounds else []
    shelves: dict[tuple[str, HistoryBounds | None], list[Settled]] = {}
    for each in settled:
        if type(each.outcome) is Done:
            shelves.setdefault(rules.of(each.delivery.task), []).append(each)
    return [
        _block(shelf, bounds, SettledColumns(mine[-bounds.most :]), worker, b"")
        for (shelf, bounds), mine in shelves.items()
        if bounds is not None
    ]


def _is_alike(rules: HistoryRules, columns: SettledColumns) -> bool:
    """Whether all are done, and of one shelf: what most settles are."""
    tasks, outcomes = columns.tasks, columns.outcomes
    if outcomes.count(DONE) < len(outcomes) and set(map(type, outcomes)) != {Done}:
        return False
    return rules.has_one or tasks.count(tasks[0]) == len(tasks)


def _block(
    shelf: str, bounds: HistoryBounds, columns: SettledColumns, worker: str, facts: bytes
) -> Blocks:
    return Blocks(shelf, bounds, _marks_of(columns), _encode_columns(columns, worker, facts))


def _marks_of(columns: SettledColumns) -> bytes:
    ids = [delivery.job_id for delivery in columns.deliveries]
    if set(map(len, ids)) == {ID}:
        return b"d".join(ids) + b"d"
    return b"".join([mark_of(job_id) + b"d" for job_id in ids])


def mark_of(job_id: JobId) -> bytes:
    """16 bytes by which a job is found: its id, or a digest of one that is not as long."""
    if len(job_id) == ID:
        return job_id
    return hashlib.sha1(job_id, usedforsecurity=False).hexdigest()[:ID].encode()


def _encode_columns(columns: SettledColumns, worker: str, facts: bytes) -> bytes:
    deliveries = columns.deliveries
    envelopes = [delivery.envelope for delivery in deliveries]
    sizes = list(map(len, envelopes))
    if max(sizes) > MOST_BYTES:
        envelopes = [each if len(each) <= MOST_BYTES else b"" for each in envelopes]
        sizes = list(map(len, envelopes))
    outcomes: list[Any] = columns.outcomes
    verdicts: bytes | Sequence[bytes] = b""
    if outcomes.count(DONE) < len(outcomes):
        verdicts = _column([_kept(outcome.verdict) for outcome in outcomes])
    receipts = [delivery.receipt for delivery in deliveries]
    if isinstance(receipts[0], bytes):
        ready: object = b" ".join(receipts)  # type: ignore[arg-type]
    else:
        ready = _column([delivery.ready_ms for delivery in deliveries])
    return _encode(
        (
            msgspec.Raw(facts or encode_settled(columns)),
            worker,
            ready,
            _column(sizes),
            b"".join(envelopes),
            verdicts,
            _more(columns),
        )
    )


def _more(columns: SettledColumns) -> dict[int, tuple[bytes, bytes, int, bytes]]:
    deliveries = columns.deliveries
    rare: list[object] = [each.history or each.constraints for each in deliveries]
    if 0 in columns.started_ms:
        rare = [had or each.recorded_ms for had, each in zip(rare, deliveries, strict=True)]
    if not any(rare):
        return {}
    return {
        at: (each.history, each.constraints, each.recorded_ms, _kept(each.inputs))
        for at, each in enumerate(deliveries)
        if rare[at]
    }


def _kept(value: bytes) -> bytes:
    return value if len(value) <= MOST_BYTES else b""


def _column(values: Sequence[_T]) -> _T | Sequence[_T]:
    return values[0] if values and values.count(values[0]) == len(values) else values


def encode_jobs(jobs: Sequence[EndedJob]) -> tuple[bytes, bytes]:
    """Marks and block of any ended jobs of one worker; of one without an id, only the place."""
    facts = encode_block(
        [job.job_id for job in jobs],
        _column([job.state.value for job in jobs]),
        _column([job.task for job in jobs]),
        _column([job.attempt for job in jobs]),
        0,
        _column([job.took_us for job in jobs]),
        "",
    )
    envelopes = [job.envelope if len(job.envelope) <= MOST_BYTES else b"" for job in jobs]
    more = {
        at: (job.history, job.constraints, job.started_ms, _kept(job.inputs))
        for at, job in enumerate(jobs)
        if job.job_id
    }
    block = (
        msgspec.Raw(facts),
        jobs[0].worker,
        _column([job.ready_ms for job in jobs]),
        _column(list(map(len, envelopes))),
        b"".join(envelopes),
        _column([_kept(job.verdict) for job in jobs]),
        more,
    )
    return b"".join([_mark(job) for job in jobs]), _encode(block)


def _mark(job: EndedJob) -> bytes:
    return mark_of(job.job_id) + LETTERS[job.state] if job.job_id else _NO_MARK
