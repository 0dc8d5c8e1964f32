"""Values of flows that go in and out of a store."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.flow.counts import FlowCounts
from headrace.core.job.ids import JobId


class Cause(msgspec.Struct, array_like=True, frozen=True):
    """The job that failed first, and so why another is dead that waited for it."""

    queue: str
    job_id: JobId


encode_cause = msgspec.msgpack.Encoder().encode
_decode_cause = msgspec.msgpack.Decoder(Cause).decode


def decode_cause(data: bytes) -> Cause | None:
    """None if there is none, or it cannot be read."""
    try:
        return _decode_cause(data) if data else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Addition(msgspec.Struct, frozen=True):
    """One more job for `child` to wait for: `parent`, which the running job `added_by` adds."""

    child: JobId
    parent: JobId
    added_by: JobId


Added = Literal["waits", "ended", "gone"]
"""The child waits for the job; the job has ended already; or the child does not wait for the one
that adds it."""


class FlowPart(msgspec.Struct, frozen=True):
    """The jobs of a flow that are in one queue."""

    counts: FlowCounts = FlowCounts()
    queues: tuple[str, ...] = ()
    """Other queues in which jobs were added to the flow."""
    live: tuple[JobId, ...] = ()
    """Jobs that have not ended."""
    failed: tuple[JobId, ...] = ()
    """Dead jobs that can be replayed: they did not die with another."""
