"""Chunks: how stores keep blocks of ended jobs.

A store puts each block into a *frame*, with the time, and adds the frame to the last *chunk* of
its shelf, or begins another when that one is full. All marks of a chunk have the same size, so the
place of a mark says which job of the chunk it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

import msgspec

from headrace.core.job.ids import JobId
from headrace.core.job.state import ENDED, State
from headrace.store.history.block import (
    ID,
    LETTERS,
    MARK,
    EndedBlock,
    MoreOfJob,
    encode_jobs,
    mark_of,
)
from headrace.store.values import EndedJob, Fact

_T = TypeVar("_T")

FULL = 8192
"""Bytes from which on a chunk gets no further frames."""
_BY_KIND = {state.value: state for state in ENDED}
_STATES = {letter[0]: state for state, letter in LETTERS.items()}

_MANY = 8
_NO_MORE = MoreOfJob()

_encode = msgspec.msgpack.Encoder().encode


class _Frame(msgspec.Struct, array_like=True, frozen=True, gc=False):
    ended_ms: int
    progress: dict[int, bytes]
    """The last progress of jobs that reported one, by place."""
    block: EndedBlock


_decode_frame = msgspec.msgpack.Decoder(_Frame).decode


def encode_frame(ended_ms: int, progress: Mapping[int, bytes], block: bytes) -> bytes:
    """A block as it is in a chunk, after its length."""
    frame = _encode((ended_ms, progress, msgspec.Raw(block)))
    return len(frame).to_bytes(4, "big") + frame


def decode_chunk(data: bytes) -> list[EndedJob]:
    """The jobs of a chunk, the oldest first; one that was forgotten has no id. Raises `ValueError`,
    or what msgspec does, if it is none."""
    return [job for frame in _frames(data) for job in _jobs_in(frame)]


def without(data: bytes, job_ids: Collection[JobId]) -> tuple[bytes, bytes]:
    """A chunk with nothing in the places of some jobs: its marks and its frames. The places still
    count, so that no job which was beyond the bound comes back."""
    marks, frames = [], []
    for frame in _frames(data):
        nothing = EndedJob(b"", State.DONE, frame.ended_ms, "", worker=frame.block.worker)
        jobs = [nothing if job.job_id in job_ids else job for job in _jobs_in(frame)]
        mark, block = encode_jobs(jobs)
        progress = {at: job.progress for at, job in enumerate(jobs) if job.progress}
        marks.append(mark)
        frames.append(encode_frame(frame.ended_ms, progress, block))
    return b"".join(marks), b"".join(frames)


def find_mark(marks: bytes, job_id: JobId) -> tuple[int, State] | None:
    """The place and the state of a job in a chunk with these marks; the latest, if it is there
    twice."""
    mark, end = mark_of(job_id), len(marks)
    while (at := marks.rfind(mark, 0, end)) >= 0:
        if at % MARK == 0 and marks[at + ID] in _STATES:
            return at // MARK, _STATES[marks[at + ID]]
        end = at + ID - 1
    return None


def find_marks(marks: bytes, job_ids: Sequence[JobId]) -> list[int]:
    """The places of those of these jobs that are in a chunk; the latest of each."""
    if len(job_ids) < _MANY:
        found = [find_mark(marks, job_id) for job_id in job_ids]
        return [each[0] for each in found if each is not None]
    # One pass over the chunk, however many are looked for.
    places = {marks[at : at + ID]: at // MARK for at in range(0, len(marks), MARK)}
    return [places[mark] for mark in map(mark_of, job_ids) if mark in places]


def _frames(data: bytes) -> Iterator[_Frame]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 0 or at + 4 + size > len(data):
            raise ValueError("a frame is longer than its chunk")
        yield _decode_frame(data[at + 4 : at + 4 + size])
        at += 4 + size


def _jobs_in(frame: _Frame) -> Iterator[EndedJob]:
    block = frame.block
    facts = block.facts.facts()
    count = len(facts)
    columns = zip(
        facts, _ready(block.ready, count), _envelopes(block, count), _each(block.verdicts, count),
        strict=True,
    )  # fmt: skip
    for at, (fact, ready_ms, envelope, verdict) in enumerate(columns):
        more = block.more.get(at, _NO_MORE)
        yield EndedJob(
            fact.job_id,
            _state_of(fact),
            frame.ended_ms,
            fact.task,
            fact.attempt,
            block.worker,
            ready_ms,
            fact.started_ms or more.started_ms,
            fact.took_us,
            envelope,
            more.history,
            more.constraints,
            verdict,
            frame.progress.get(at, b""),
            more.inputs,
        )


def _state_of(fact: Fact) -> State:
    try:
        return _BY_KIND[fact.kind]
    except KeyError:
        raise ValueError(f"a job in the history cannot be {fact.kind}") from None


def _each(column: _T | list[_T], count: int) -> Iterator[_T] | list[_T]:
    return column if isinstance(column, list) else repeat(column, count)


def _ready(column: bytes | int | list[int], count: int) -> Iterator[int] | list[int]:
    if not isinstance(column, bytes):
        return _each(column, count)
    return [int(each.rpartition(b"/")[2].split(b"-")[0]) for each in column.split(b" ")]


def _envelopes(block: EndedBlock, count: int) -> Iterator[bytes]:
    at = 0
    for size in _each(block.sizes, count):
        yield block.envelopes[at : at + size]
        at += size
