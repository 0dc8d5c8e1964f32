"""Pages of a queue's history, the latest first: its shelves merged by time."""

from __future__ import annotations

import heapq
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.errors import ConfigError
from headrace.store.history.chunk import decode_chunk
from headrace.store.values import EndedJob, EndedJobPage

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What `decode_chunk` raises over bytes that are none."""


class ShelfPosition(NamedTuple):
    """A place in a shelf: jobs before this one in the chunk come next."""

    chunk: int
    place: int


class Shelf(NamedTuple):
    """A part of one shelf, as it was read."""

    name: str
    keep_ms: int
    first: int
    """The oldest chunk that counts."""
    hidden: int
    """How many of its oldest jobs are beyond the bound."""
    chunks: Sequence[tuple[int, bytes]]
    """Numbers and data, the latest first."""


Positions = Mapping[str, ShelfPosition]
Odd = Callable[[str], None]
"""Called with what is wrong about a chunk."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, ShelfPosition]).decode
_AT_THE_END = 2**31


class _Item(NamedTuple):
    ended_ms: int
    shelf: str
    position: ShelfPosition
    job: EndedJob | None
    """None where more of the shelf has to be read first."""


def positions_in(cursor: str) -> Positions | None:
    """What a cursor says; None at the start."""
    if not cursor:
        return None
    try:
        return _decode(urlsafe_b64decode(cursor.encode()))
    except (*UNREADABLE, UnicodeError):
        raise ConfigError(
            f"{cursor!r} is not a cursor of ended jobs: pass on the one that came last"
        ) from None


def page_of(
    shelves: Sequence[Shelf],
    start: Positions | None,
    limit: int,
    now_ms: int,
    odd: Odd,
    state: State | None = None,
) -> EndedJobPage:
    """Up to `limit` jobs of these shelves, of one state if it is given."""
    left = {
        shelf.name: (start or {}).get(shelf.name) or ShelfPosition(shelf.chunks[0][0], _AT_THE_END)
        for shelf in shelves
        if shelf.chunks
    }
    walks = [_walk(shelf, left[shelf.name], now_ms, odd) for shelf in shelves if shelf.chunks]
    jobs: list[EndedJob] = []
    for item in heapq.merge(*walks, key=lambda item: -item.ended_ms):
        if item.job is None:
            break
        left[item.shelf] = item.position
        if item.job.job_id and state in (None, item.job.state):
            jobs.append(item.job)
            if len(jobs) == limit:
                break
    else:
        return EndedJobPage(jobs, "")
    ends = {shelf.name: ShelfPosition(shelf.first, shelf.hidden) for shelf in shelves}
    more = {name: at for name, at in left.items() if at > ends[name]}
    return EndedJobPage(jobs, urlsafe_b64encode(_encode(more)).decode() if more else "")


def last_lives(page: EndedJobPage, ended_ms: Mapping[JobId, int]) -> EndedJobPage:
    """A page without what is kept of earlier lives of a job. `ended_ms` says when the last life of
    each ended; not of one that is live."""
    lives = {job.job_id: job for job in reversed(page.jobs)}
    jobs = [
        job
        for job in page.jobs
        if lives[job.job_id] is job and ended_ms.get(job.job_id) == job.ended_ms
    ]
    return EndedJobPage(jobs, page.cursor)


def _walk(shelf: Shelf, start: ShelfPosition, now_ms: int, odd: Odd) -> Iterator[_Item]:
    """The jobs of a shelf from a position on, the latest first."""
    last_ms = 0
    for number, data in shelf.chunks:
        try:
            jobs = decode_chunk(data)
        except UNREADABLE as error:
            odd(f"chunk {number}: {error}")
            continue
        end = start.place if number == start.chunk else _AT_THE_END
        first = shelf.hidden if number == shelf.first else 0
        for at in range(min(end, len(jobs)) - 1, first - 1, -1):
            last_ms = jobs[at].ended_ms
            if last_ms + shelf.keep_ms <= now_ms:
                # All that follow ended before it.
                return
            yield _Item(last_ms, shelf.name, ShelfPosition(number, at), jobs[at])
    if shelf.chunks[-1][0] > shelf.first:
        yield _Item(last_ms, shelf.name, ShelfPosition(shelf.chunks[-1][0], 0), None)
