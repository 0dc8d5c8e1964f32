"""The records of workers and supervisors in the store, for people to see."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zlib import crc32

import msgspec

from headrace.core.breaker import Breaker
from headrace.core.clock import to_datetime
from headrace.core.job.ids import JobId
from headrace.core.scaling.scaler import Scaler
from headrace.core.task.declaration_mark import MARK

WORKERS = "workers"
"""The key-value space in which each running worker has a record, under its name."""


SUPERVISORS = "supervisors"
"""The key-value space of the parents that scale worker processes."""


ENDED = "ended_workers"
"""The key-value space in which the last record of a worker that ended stays for a minute: in a
deployment, another of its version may be about to start."""

COUNTS_ON = 60.0
"""Seconds for which the declarations of a worker that is not seen any more count for others."""


STOPS = "worker_stops"
"""The key-value space of requests that workers stop, under their names."""

FOREVER = 3.0e8
"""Seconds of a drain that ends when the last run does: ten years."""


_NAMES_SHOWN = 3


class StopRequest(msgspec.Struct, frozen=True):
    """A request that a worker takes no more jobs, and ends when its runs have."""

    drain: float | None = None
    """Seconds that runs have; None for as many as the worker was started with."""


class Scaled(msgspec.Struct, frozen=True):
    """Scaled consumers of one kind: those of a subscription in one worker, or the worker processes
    of a supervisor."""

    count: int
    """Those that live."""
    least: int
    most: int
    slots: int
    """Jobs or events that they can hold at once, all together."""
    ups: dict[str, int] = {}
    """How often more were called for, by reason."""
    downs: dict[str, int] = {}
    replaced: int = 0
    """How many had died."""
    last: str = ""
    """The latest decision, as a sentence."""

    @classmethod
    def of(cls, scaler: Scaler, breaker: Breaker, count: int, slots: int) -> Scaled:
        scaling = scaler.scaling
        ups, downs = dict(scaler.ups), dict(scaler.downs)
        return cls(
            count, scaling.least, scaling.most, slots, ups, downs, breaker.deaths, scaler.last
        )


class RunRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job, or an event, that a worker runs."""

    job_id: JobId
    queue: str
    task: str
    started_ms: int
    """By the store's clock."""


class KnownTasks(msgspec.Struct, frozen=True, array_like=True):
    """The tasks that a worker knows. A record is written at every beat: so their names are there as
    four bytes each, and the first few as they are."""

    marks: bytes = b""
    some: tuple[str, ...] = ()
    declared: bytes = b""
    """Beside each of `marks`, the mark of how the task is declared; an older Headrace writes
    none."""

    @classmethod
    def of(cls, declared: Mapping[str, bytes]) -> KnownTasks:
        """Tasks by name, each with the mark of its declaration."""
        known = sorted(declared)
        return cls(
            b"".join(map(_mark, known)),
            tuple(known[:_NAMES_SHOWN]),
            b"".join(declared[name] for name in known),
        )

    def may_declare_otherwise(self, name: str, mark: bytes) -> bool:
        """Whether the task is known, and not declared as `mark` says, as far as can be seen."""
        sought = _mark(name)
        places = [at for at in range(0, len(self.marks), MARK) if self._name_at(at) == sought]
        return any(self.declared[at : at + MARK] != mark for at in places)

    def has_none_of(self, other: KnownTasks) -> bool:
        """Whether both know tasks, and none in common."""
        mine, others = self._all(), other._all()
        return bool(mine) and bool(others) and mine.isdisjoint(others)

    def _all(self) -> set[bytes]:
        return {self._name_at(at) for at in range(0, len(self.marks), MARK)}

    def _name_at(self, at: int) -> bytes:
        return self.marks[at : at + MARK]


def _mark(name: str) -> bytes:
    return crc32(name.encode("utf-8", "replace")).to_bytes(MARK, "big")


class WorkerRecord(msgspec.Struct, frozen=True):
    """One worker, as of its last beat. It is gone from the store one lease after that."""

    name: str
    host: str
    pid: int
    started_ms: int
    """By the store's clock, as is `beat_ms`."""
    queues: dict[str, int]
    """Each queue with its weight, in the order given."""
    concurrency: int
    version: str
    """The version of Headrace."""
    python: str
    running: int
    """Jobs that it holds."""
    beat_ms: int
    strict: bool = False
    threads: int = 0
    """For plain functions, at most this many at once."""
    processes: int = 0
    """For functions in processes, at most this many at once."""
    consumers: dict[str, Scaled] = {}
    """Those of each subscription, by its name."""
    runs: tuple[RunRecord, ...] = ()
    """What it runs, the longest-running first; of many, the first."""
    stopping: bool = False
    """Whether it takes no more jobs."""
    queue_concurrency: dict[str, int] = {}
    """How many jobs of a queue it lets run at a time, on all workers together, where it says so."""
    tasks: KnownTasks = KnownTasks()

    @property
    def started(self) -> datetime:
        """When it began to take jobs."""
        return to_datetime(self.started_ms)

    @property
    def last_beat(self) -> datetime:
        """When it last renewed its record."""
        return to_datetime(self.beat_ms)


class SupervisorRecord(msgspec.Struct, frozen=True):
    """A parent that scales worker processes, as of its last look at the backlog."""

    host: str
    pid: int
    processes: Scaled


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerRecord).decode
_decode_supervisor = msgspec.msgpack.Decoder(SupervisorRecord).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


_decode_stop = msgspec.msgpack.Decoder(StopRequest).decode


def encode_record(record: WorkerRecord | SupervisorRecord | StopRequest) -> bytes:
    return _encode(record)


def decode_stop(data: bytes) -> StopRequest:
    """What cannot be read asks for a stop too, of the usual kind."""
    try:
        return _decode_stop(data)
    except _UNREADABLE:
        return StopRequest()


def decode_record(data: bytes) -> WorkerRecord | None:
    """None for what another version may have written and this one cannot read."""
    try:
        return _decode(data)
    except _UNREADABLE:
        return None


def decode_supervisor(data: bytes) -> SupervisorRecord | None:
    """As `decode_record`."""
    try:
        return _decode_supervisor(data)
    except _UNREADABLE:
        return None
