"""Facts of many jobs as one value: a column for each of their fields.

What is the same for all jobs of a batch, such as the task, is there once. Ids are joined, and
times are small differences. So a batch costs one short list for each column that varies, and no
object for each job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TypeVar

import msgspec

from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Done
from headrace.core.job.tally import SettledColumns, detail_of, kind_of
from headrace.store.values import Fact, Kind

_T = TypeVar("_T")

_encode = msgspec.msgpack.Encoder().encode
_BLOCK = 0x98
"""The first byte of a block: an array of eight. A single fact has fewer fields."""


class FactBlock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Facts by column, in their order. A column is a list, or one value that all facts have."""

    id_sizes: int | list[int]
    ids: bytes
    """All ids, one after the other."""
    kinds: Kind | list[Kind]
    tasks: str | list[str]
    attempts: int | list[int] = 0
    starts: int | list[int] = 0
    """In ms. In a list, the first is a time; the others are differences from it."""
    took_us: int | list[int] = 0
    details: str | list[str] = ""

    def facts(self) -> list[Fact]:
        """Each fact; `ValueError` if columns differ in length."""
        ids = list(self._split_ids())
        starts = self.starts
        if isinstance(starts, list):
            starts = [*starts[:1], *(starts[0] + later for later in starts[1:])]
        columns = (self.kinds, ids, self.tasks, self.attempts, starts, self.took_us, self.details)
        each = (it if isinstance(it, list) else repeat(it, len(ids)) for it in columns)
        return [Fact(*fields) for fields in zip(*each, strict=True)]

    def _split_ids(self) -> Iterator[JobId]:
        sizes, at = self.id_sizes, 0
        if not isinstance(sizes, list):
            sizes = [sizes] * (len(self.ids) // sizes) if sizes > 0 else []
        if any(size < 0 for size in sizes) or sum(sizes) != len(self.ids):
            raise ValueError("its ids do not have the sizes that it says")
        for size in sizes:
            yield self.ids[at : at + size]
            at += size


_decode_block = msgspec.msgpack.Decoder(FactBlock).decode
_decode_fact = msgspec.msgpack.Decoder(Fact).decode
_decode_values = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def encode_settled(columns: SettledColumns) -> bytes:
    """The facts of runs that have ended, as one block."""
    outcomes = columns.outcomes
    kinds: str | Sequence[str] = "done"
    details: str | Sequence[str] = ""
    if outcomes.count(DONE) < len(outcomes) and set(map(type, outcomes)) != {Done}:
        kinds = _column([kind_of(outcome) for outcome in outcomes])
        details = _column([_storable(detail_of(outcome)) for outcome in outcomes])
    starts = _column(columns.started_ms)
    if not isinstance(starts, int):
        first, *later = starts
        starts = [first, *[each - first for each in later]]
    return encode_block(
        [delivery.job_id for delivery in columns.deliveries],
        kinds,
        _column(columns.tasks),
        _column(columns.attempts),
        starts,
        _column(columns.took_us),
        details,
    )


def encode_sent(ids: Sequence[JobId], kinds: Sequence[str], tasks: Sequence[str]) -> bytes:
    """The facts of jobs that were sent, as one block."""
    kind, task = _column(kinds), _column(tasks)
    return encode_block(ids, kind, task, 0, 0, 0, "")


def encode_block(ids: Sequence[JobId], *columns: object) -> bytes:
    """A block of these ids, and the other columns in their order."""
    sizes = list(map(len, ids))
    joined = b"".join(ids)
    # Without bytes, only a list says how many there are.
    return _encode((_column(sizes) if joined else sizes, joined, *columns))


def encode_fact(fields: tuple[object, ...]) -> bytes:
    """A single fact, of its first fields; the others have their defaults."""
    return _encode(fields)


def _column(values: Sequence[_T]) -> _T | Sequence[_T]:
    return values[0] if values and values.count(values[0]) == len(values) else values


def _storable(text: str) -> str:
    # A character that cannot be stored must not keep a job from ending.
    return text.encode("utf-8", "replace").decode()


def decode_facts(data: bytes) -> list[Fact]:
    """The facts in an array of blocks and single facts. Raises what msgspec does, or `ValueError`,
    if it is neither."""
    facts: list[Fact] = []
    for value in _decode_values(data):
        if memoryview(value)[0] == _BLOCK:
            facts += _decode_block(value).facts()
        else:
            facts.append(_decode_fact(value))
    return facts
