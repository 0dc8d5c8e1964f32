"""A job as a store takes it."""

from __future__ import annotations

import msgspec

from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import Feed
from headrace.core.job.ids import JobId


class Tick(msgspec.Struct, frozen=True, gc=False):
    """One time of a schedule: the job is added only if no job of this or a later time ever was."""

    schedule: str
    at_ms: int


class Child(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A job that waits for another to end, and what it does if that one ends badly."""

    queue: str
    job_id: JobId
    runs_anyway: bool = False


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A job as a store takes it: due at once, `delay_ms` from the store's now, or at `at_ms`."""

    job_id: JobId
    envelope: bytes
    delay_ms: int | None = None
    at_ms: int | None = None
    constraints: Constraints = NO_CONSTRAINTS
    parents: tuple[JobId, ...] = ()
    """Jobs that must end first; its own time counts from then. Their results come with it, in
    this order."""
    children: tuple[Child, ...] = ()
    """Jobs, stored before this one, that wait for it."""
    tick: Tick | None = None
    history: bytes = b""
    """Of a job that comes from another queue, where it may have run."""
    begins_flow: bool = False
    """Whether its flow may have run before under the same ids: unless the queue has other jobs of
    it, the flow is counted anew there."""

    @property
    def is_plain(self) -> bool:
        """Whether it only has to be added to its queue."""
        return (
            self.constraints is NO_CONSTRAINTS
            and not self.parents
            and not self.children
            and self.tick is None
            and not self.history
        )


class FlowMembership(msgspec.Struct, frozen=True):
    """The place of one job in its flow: neighbours, and what its envelope says about the flow."""

    job_id: JobId
    flow: JobId
    feed: Feed
    parents: tuple[JobId, ...]
    children: tuple[Child, ...]
    end_queue: str = ""
    graph: bytes = b""
    begins: bool = False
    """See `Parcel.begins_flow`."""
