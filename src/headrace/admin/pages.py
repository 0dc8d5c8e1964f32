"""Paging through the jobs of many queues, with a bound on reads for one page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote, unquote

from headrace.admin.bodies import allowance_is_spent
from headrace.core.job.state import ENDED, State
from headrace.core.queue_names import group_source, is_log, log_source
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.values import Counts

T = TypeVar("T")

MOST_READS = 50
"""The most reads of the store for one page, if it is bounded."""
# How much more to read after an empty page: in some states, stores scan other jobs too.
_FURTHER = 10
_LOGS_TOGETHER = 200


@dataclass(frozen=True, slots=True)
class Stop:
    """A position in a listing: a state, a queue, and a cursor there. Its text is the cursor that
    callers get. A log in place of the queue stands for all its groups."""

    state: State
    queue: str
    cursor: str = ""

    @classmethod
    def parsed(cls, text: str) -> Stop:
        """The stop of a text; `ValueError` if it is none."""
        place, slash, cursor = text.partition("/")
        state, colon, queue = place.partition(":")
        if not (slash and colon and queue):
            raise ValueError(text)
        return cls(State(state), unquote(queue), cursor)

    def __str__(self) -> str:
        return f"{self.state}:{quote(self.queue, safe='@#')}/{self.cursor}"

    @property
    def place(self) -> tuple[str, int, str]:
        """The sort key of queues: ordinary ones first, then groups, shard by shard."""
        return _place(self.queue)


def _place(queue: str) -> tuple[str, int, str]:
    if is_log(queue):
        return (*log_source(queue), "")
    source = group_source(queue)
    return ("", 0, queue) if source is None else (source.topic, source.shard, source.group)


def _may_hold(queue: str, counts: Counts, state: State) -> bool:
    """Whether a queue may have jobs in a state. How many ended ones it has is not counted; groups
    have none."""
    if state in ENDED:
        return group_source(queue) is None
    count: int = getattr(counts, state.value)
    return count > 0


class Walk:
    """Walks through states and, in each, through the queues that have jobs in it. The groups of
    `logs` come last; they are read when the walk gets there, many logs at a time. If `bounded`,
    reading stops after `MOST_READS`."""

    def __init__(
        self, store: Store, queues: Sequence[str], logs: Sequence[str], *, bounded: bool = True
    ) -> None:
        self._store = store
        self._queues = queues
        self._parts = ["", *sorted(logs, key=log_source)]
        self._held: dict[str, dict[str, Counts]] = {}
        self._bounded = bounded
        self.reads = 0

    @property
    def is_over(self) -> bool:
        """Whether the bound on reads is reached."""
        return self._bounded and self.reads >= MOST_READS

    def begin(self, states: Sequence[State], text: str) -> Stop:
        """The stop of a cursor; `ConfigError` if it is not one of this listing."""
        if not text:
            return Stop(states[0], "")
        try:
            stop = Stop.parsed(text)
            if stop.state in states and (len(self._parts) > 1 or stop.queue in self._queues):
                return stop
        except ValueError:
            pass
        raise ConfigError(f"{text!r} is not a cursor of this list of jobs")

    async def stops(self, states: Sequence[State], text: str) -> AsyncGenerator[Stop, None]:
        """Stops from a cursor on. Those without jobs are skipped, except the first."""
        begin = self.begin(states, text)
        for state in states[states.index(begin.state) :]:
            first = begin if state is begin.state else Stop(state, "")
            for part in self._parts:
                if part and _place(part)[:2] < first.place[:2]:
                    continue
                if self.is_over and part and part not in self._held:
                    yield Stop(state, part)
                for stop in await self._stops_in(part, first):
                    yield stop

    async def _stops_in(self, part: str, first: Stop) -> list[Stop]:
        return [
            first if queue == first.queue else Stop(first.state, queue)
            for queue, counts in (await self._holding(part)).items()
            if queue == first.queue
            or (_place(queue) > first.place and _may_hold(queue, counts, first.state))
        ]

    async def _holding(self, part: str) -> dict[str, Counts]:
        """The counts of each ordinary queue, or of each group of a log."""
        if part not in self._held:
            if part:
                await self._read_groups(part)
            else:
                states = await self._store.survey(self._queues) if self._queues else []
                counts = (state.counts for state in states)
                self._held[part] = dict(zip(self._queues, counts, strict=True))
        return self._held[part]

    async def _read_groups(self, log: str) -> None:
        """Read the counts of the groups of this log and of some after it."""
        at = self._parts.index(log)
        self.reads += 1
        found = await self._store.groups(self._parts[at : at + _LOGS_TOGETHER])
        for each, groups in found.items():
            self._held[each] = {f"{group.name}{each}": group.counts for group in groups}


@dataclass(frozen=True, slots=True)
class ScannedJobs(Generic[T]):
    """The jobs read at a stop, None for each that does not match; and the next cursor."""

    jobs: Sequence[T | None]
    cursor: str
    is_cut: bool = False
    """Whether there were more to read, for which not enough may be decoded: the cursor is behind
    those."""


@dataclass
class PageScan(Generic[T]):
    """Fills a page with at most `limit` jobs. `read` returns up to that many jobs from a stop on,
    fewer if they take more bytes than may be decoded; or again those that it has just read, up to
    one of them. Examines at most `scan` jobs."""

    walk: Walk
    read: Callable[[Stop, int, bool], Awaitable[ScannedJobs[T]]]
    limit: int
    scan: int | None
    together: int | None
    """How many jobs are read at once; None for as many as are wanted, if all match."""
    found: list[T] = field(default_factory=list, init=False)
    looked: int = field(default=0, init=False)
    _further: int = field(default=1, init=False)

    async def fill(self, states: Sequence[State], cursor: str) -> str:
        """Read from the cursor until the page is full, a bound is reached, or there is no more;
        returns the cursor of the next page."""
        async with aclosing(self.walk.stops(states, cursor)) as stops:
            async for stop in stops:
                at: Stop | None = stop
                while at is not None:
                    if self._is_over:
                        return str(at)
                    at = await self._read_on(at)
        return ""

    @property
    def _is_over(self) -> bool:
        looked_enough = self.scan is not None and self.looked >= self.scan
        decoded_enough = self.looked > 0 and allowance_is_spent()
        return self._room <= 0 or looked_enough or decoded_enough or self.walk.is_over

    @property
    def _room(self) -> int:
        return self.limit - len(self.found)

    @property
    def _size(self) -> int:
        size = (self.together or self._room) * self._further
        return size if self.scan is None else min(size, self.scan - self.looked)

    async def _read_on(self, stop: Stop) -> Stop | None:
        """The next stop in this queue; None at its end."""
        reading = await self._read(stop, self._size)
        meant = [at for at, job in enumerate(reading.jobs) if job is not None]
        if len(meant) > self._room or reading.is_cut:
            # Read again, only as far as there is room: only the store knows the cursor there.
            fitting = meant[self._room - 1] + 1 if len(meant) > self._room else len(reading.jobs)
            reading = await self._read(stop, fitting, again=True)
        self.found += [job for job in reading.jobs if job is not None]
        self.looked += len(reading.jobs)
        self._further = 1 if reading.jobs else _FURTHER
        return replace(stop, cursor=reading.cursor) if reading.cursor else None

    async def _read(self, stop: Stop, size: int, *, again: bool = False) -> ScannedJobs[T]:
        self.walk.reads += 1
        return await self.read(stop, size, again)
