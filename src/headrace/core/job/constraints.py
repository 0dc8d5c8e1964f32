"""A job's constraints: priority, lane, unique name, limits, flow. Most jobs have none.

Constraints travel beside the envelope, because stores act on them: they decide what may run, and
what an end sets free.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from headrace.core.bounds import MAX_MS
from headrace.core.job.ids import JobId, to_text

MAX_PRIORITY = 100
QUEUE_LIMIT = "queue rate"
"""The limit of all jobs of a queue; others are of a task."""
KEY_LANE = "key:"
"""What the lane of a key begins with."""
MAX_GATHERED = 1000
"""How many jobs may gather for one batch: stores move a batch in one step."""
BATCH_GATE = "batch:"
"""What the name of each gathering begins with."""
RATE_GATE = "rate:"
"""What the name of the limit of a task begins with."""

# Checked when bytes are decoded; stores make the same checks where they decode themselves.
_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=1, le=MAX_MS)]
_Ms = Annotated[int, Meta(ge=0, le=MAX_MS)]
_Priority = Annotated[int, Meta(ge=0, le=MAX_PRIORITY)]


class Limit(msgspec.Struct, array_like=True, frozen=True):
    """At most `most` starts in any `window_ms`, fleet-wide, counted under `name`. With `burst`,
    that many may start at once, and the rest are spread evenly."""

    name: _Text
    most: _Count
    window_ms: _Count
    burst: _Ms = 0


class Gathering(msgspec.Struct, array_like=True, frozen=True):
    """Jobs of one `name` wait for each other, and run as one batch: when there are `most`, when the
    first has waited `max_wait_ms`, or, if `grace_ms` is not 0, when none came for that long."""

    name: Annotated[str, Meta(min_length=1, pattern=f"^{BATCH_GATE}")]
    most: Annotated[int, Meta(ge=1, le=MAX_GATHERED)]
    max_wait_ms: _Ms
    grace_ms: _Ms = 0

    def goes_ms(self, first_ms: int, last_ms: int) -> int:
        """When the batch goes if no more come, given when the first and the last came."""
        whole = first_ms + self.max_wait_ms
        return min(whole, last_ms + self.grace_ms) if self.grace_ms else whole


def batch_gate(task: str, key: str = "") -> str:
    """The name under which jobs of a task gather, with those of the same key if there is one."""
    return _gate(BATCH_GATE, task, key)


def rate_gate(task: str, key: str = "") -> str:
    """The name under which starts of a task are counted, of those of the same key if there is
    one."""
    return _gate(RATE_GATE, task, key)


def _gate(kind: str, task: str, key: str) -> str:
    # A colon in the name of a task is not the one before a key: tasks never share a gate.
    whole = kind + task.replace("%", "%25").replace(":", "%3A")
    return f"{whole}:{key}" if key else whole


class Constraints(msgspec.Struct, frozen=True, omit_defaults=True, rename={
    "priority": "p", "lane": "k", "width": "w", "unique": "u", "unique_for_ms": "f",
    "debounced": "b", "limits": "r", "ttl_ms": "t", "flow": "o", "task_lane": "l",
    "task_width": "n", "gathering": "g",
}):  # fmt: skip
    """What a store checks before it lets a job run, and what an end of the job sets free."""

    priority: _Priority = 0
    lane: _Text = ""
    """Jobs of one lane run at most `width` at a time, in the order in which they came."""
    width: _Count = 1
    unique: _Text = ""
    """While a job with this name exists, a second one is not added; its sender gets the first."""
    unique_for_ms: _Count = 0
    """How much longer the name is taken after the job has ended."""
    debounced: bool = False
    """Another job with the same `unique` name takes this one's place while it is scheduled, with
    its own time, arguments and constraints; once it is due, the name is free."""
    limits: tuple[Limit, ...] = ()
    ttl_ms: _Ms = 0
    """How long the verdict is kept if the store itself ends the job, without a worker."""
    flow: _Text = ""
    """The id of the flow with which the job is counted."""
    task_lane: _Text = ""
    """A second lane, which a job enters behind its own lane and the limits of its task, and before
    `QUEUE_LIMIT`; while it waits there, it has no place here. Other jobs may have this one as
    their only lane, but not before another: they would wait for each other."""
    task_width: _Count = 1
    gathering: Gathering | None = None

    @property
    def gathers(self) -> Gathering | None:
        """None for a job with lanes or limits: those count single jobs."""
        return None if self.lane or self.task_lane or self.limits else self.gathering


NO_CONSTRAINTS = Constraints()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Constraints).decode


def encode_constraints(constraints: Constraints) -> bytes:
    """As stored; nothing at all for a job without constraints."""
    return b"" if constraints == NO_CONSTRAINTS else _encode(constraints)


@lru_cache(maxsize=8)
def in_flow(flow: JobId, constraints: Constraints) -> Constraints:
    """The constraints of a job of a flow; mostly all of its jobs have the same."""
    return replace(constraints, flow=to_text(flow))


def read_constraints(data: bytes) -> Constraints:
    """The constraints in `data`, or a `ValueError` that says what is wrong with them."""
    if not data:
        return NO_CONSTRAINTS
    try:
        read = _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if read.task_lane and read.task_lane == read.lane:
        raise ValueError("`lane` and `task_lane` are the same - at `$.l`")
    return read


def decode_constraints(data: bytes) -> Constraints:
    """As `read_constraints`, but never fails: no job may be lost over odd constraints. Stores treat
    such a job as one without; the worker that gets it says what is wrong."""
    try:
        return read_constraints(data)
    except ValueError:
        return NO_CONSTRAINTS
