"""Dead jobs of many queues together, the latest first, a page at a time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from headrace.admin.bodies import MOST_READ, allowance_is_spent, pause_between_jobs, together
from headrace.admin.dead.dead_info import PAGE
from headrace.admin.pages import MOST_READS
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.admin.matcher import JobMatcher
    from headrace.store.contract import DeadJob, Store

Found = tuple[str, "DeadJob"]
"""A dead job, and its queue."""
Place = tuple[int, str]
"""The sort key of a dead job: those that died last come first, then by the name of the queue."""


@dataclass(slots=True)
class _OpenQueue:
    """A queue that has been read: jobs that were not examined yet, and where to go on."""

    cursor: str = ""
    jobs: deque[DeadJob] = field(default_factory=deque)
    ended: bool = False
    largest: int = 0
    """Bytes of the largest job so far."""


class DeadScan:
    """Examines dead jobs in the order of their death, in all queues, and holds few if they are
    large. `latest` has when the latest of each queue died: a queue is read once its first job is
    next. Makes at most `MOST_READS` reads and examines at most `scan` jobs, as long as more may be
    decoded; without `scan`, all."""

    def __init__(
        self, store: Store, latest: Mapping[str, int], matcher: JobMatcher, scan: int | None
    ) -> None:
        self._store = store
        self._matcher = matcher
        self._scan = scan
        self._closed = sorted((-died_ms, queue) for queue, died_ms in latest.items())
        self._begins: dict[str, str] = {}
        """The cursors of closed queues that earlier pages had open."""
        self._open: dict[str, _OpenQueue] = {}
        self._heads: list[Place] = []
        self._ended: set[str] = set()
        self._fresh: set[str] = set()
        """Queues that were read from their latest dead job on."""
        self._last: Place | None = None
        self._after: Place | None = None
        """The last place of the page before."""
        self._reads = 0
        self.looked = 0

    async def page(self, limit: int, cursor: str = "") -> tuple[list[Found], str]:
        """Up to `limit` jobs that match, and the cursor of the next page; empty after the last."""
        if cursor:
            self._go_on(cursor)
        found, size = list[Found](), 0
        while len(found) < limit and size < MOST_READ and not self._has_looked_enough:
            examined = await self._next(limit - len(found))
            if examined is None:
                return found, ""
            self.looked += 1
            if self._is_earlier(*examined):
                continue
            if self._matcher.matches_dead(examined[1]):
                found.append(examined)
                size += _size(examined[1])
            await pause_between_jobs()
        return found, self._cursor()

    @property
    def _has_looked_enough(self) -> bool:
        if self._scan is None:
            return False
        spent = self.looked > 0 and allowance_is_spent()
        return spent or self._reads >= MOST_READS or self.looked >= self._scan

    def _is_earlier(self, queue: str, job: DeadJob) -> bool:
        """Whether it died since the page before, in a queue that was not open then."""
        return (
            self._after is not None
            and queue in self._fresh
            and (-job.died_ms, queue) <= self._after
        )

    async def _next(self, room: int) -> Found | None:
        """The next dead job in the order of death; None if there is no other that may match."""
        while self._closed and (not self._heads or self._closed[0] < self._heads[0]):
            _, queue = self._closed.pop(0)
            begin = self._begins.pop(queue, "")
            if not begin:
                self._fresh.add(queue)
            await self._read(queue, _OpenQueue(begin), room)
        if not self._heads:
            return None
        _, queue = self._last = heapq.heappop(self._heads)
        part = self._open[queue]
        job = part.jobs.popleft()
        part.cursor = job.cursor
        if job.died_ms < self._matcher.since_ms:
            # All others died even earlier.
            return None
        if part.jobs:
            heapq.heappush(self._heads, (-part.jobs[0].died_ms, queue))
        elif part.ended:
            self._close(queue)
        else:
            await self._read(queue, part, room)
        return queue, job

    async def _read(self, queue: str, part: _OpenQueue, room: int) -> None:
        size = min(room, PAGE) if self._matcher.is_open else PAGE
        self._reads += 1
        read = await self._store.dead(queue, part.cursor, together(size, part.largest))
        part.jobs.extend(read.jobs)
        part.largest = max([part.largest, *map(_size, read.jobs)])
        part.ended = not read.cursor
        if part.jobs:
            self._open[queue] = part
            heapq.heappush(self._heads, (-part.jobs[0].died_ms, queue))
        else:
            self._close(queue)

    def _close(self, queue: str) -> None:
        self._open.pop(queue, None)
        self._ended.add(queue)

    def _cursor(self) -> str:
        if self._last is None or not (self._open or self._closed):
            return ""
        begun: dict[str, Place | None] = dict.fromkeys(self._ended)
        begun |= {queue: (-part.jobs[0].died_ms, part.cursor) for queue, part in self._open.items()}
        begun |= {
            queue: (at, self._begins[queue]) for at, queue in self._closed if queue in self._begins
        }
        return msgspec.json.encode((*self._last, begun)).decode()

    def _go_on(self, text: str) -> None:
        """Go on in the queues that the page before had open, where it was, and leave out those
        that had ended. What died in others meanwhile belongs before this page."""
        try:
            at, name, begun = _decode_cursor(text)
        except msgspec.DecodeError:
            what = f"{text[:100]!r} is not a cursor of dead jobs"
            raise ConfigError(f"{what}: pass on the one that came last") from None
        self._last = self._after = (at, name)
        self._ended = {queue for queue, place in begun.items() if place is None}
        self._begins = {queue: place[1] for queue, place in begun.items() if place is not None}
        self._closed = sorted(
            (died if (place := begun.get(queue)) is None else place[0], queue)
            for died, queue in self._closed
            if queue not in self._ended
        )


def _size(job: DeadJob) -> int:
    return len(job.envelope) + len(job.history)


_decode_cursor = msgspec.json.Decoder(tuple[int, str, dict[str, tuple[int, str] | None]]).decode
