"""A job in the hands of one worker, under a lease."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.job.envelope import peek_id
from headrace.core.job.ids import JobId, to_text
from headrace.core.job.outcome import Outcome

Receipt = str | bytes | int


class LeasedDelivery:
    """What a store hands to a worker. `receipt` is the store's own name for this delivery; `count`
    numbers the deliveries of a job at its present place, from 1; `epoch` is the queue's epoch
    when it was read (on SQLite the file's generation)."""

    # On the hot path: defaults stand on the class, so that most deliveries need not set them.
    history = b""
    constraints = b""
    inputs = b""
    """Results of the jobs that this one waited for: a MessagePack array, in the order asked for."""
    batch: Receipt = b""
    """The store's name for the batch in which the job has gathered; all of it comes together."""
    count = 1
    epoch = 0
    job_id: JobId = b""
    """Set when the envelope is decoded; empty if it cannot be."""
    leased_at = 0.0
    """By the worker's monotonic clock; the heartbeat renews leases that are older than a while."""
    ready_ms = 0
    """When the job began to wait, by the store's clock; 0 if the store does not say."""
    task = ""
    attempt = 0
    started_ms = 0
    took_us = 0
    """For the record of events; zero where the function was not entered."""
    recorded_ms = 0
    """`started_ms` of a run whose start is in the events already; that is zero then."""
    loss_logged = False
    """Whether the log says that another worker has it now."""
    on_outcome: Callable[[Outcome], None] | None = None
    """Called with the outcome before it is written; set by middleware."""

    def __init__(
        self, queue: str, receipt: Receipt, envelope: bytes, history: bytes = b"", count: int = 1
    ) -> None:
        self.queue = queue
        self.receipt = receipt
        self.envelope = envelope
        if history:
            self.history = history
        if count != 1:
            self.count = count

    def mark_start_recorded(self) -> None:
        """Have no start written with the outcome: it is in the events already."""
        self.recorded_ms, self.started_ms = self.started_ms, 0

    def identify(self) -> None:
        """Read the id of a job whose envelope is not decoded: the store files jobs under it."""
        self.job_id = peek_id(self.envelope)

    @property
    def id_text(self) -> str:
        """The job's id for people; without an id, the receipt."""
        return to_text(self.job_id) if self.job_id else f"(entry {self.receipt!r})"

    @property
    def fields(self) -> dict[str, object]:
        """The `extra` of log records about it."""
        fields: dict[str, object] = {"job": self.id_text, "queue": self.queue}
        if self.task:
            fields["task"] = self.task
        if self.attempt:
            fields["attempt"] = self.attempt
        return fields

    def __repr__(self) -> str:
        return f"LeasedDelivery({self.queue!r}, {self.receipt!r}, count={self.count})"


# CPython gives all instances of a class one layout, made of what the first few were given. The
# first of a worker come by the hundred, before anything else is set on them: each would get a dict
# of its own for what is set later, which takes twice the time and memory.
_first = LeasedDelivery("", 0, b"")
for _name in (
    "history",
    "count",
    "constraints",
    "inputs",
    "epoch",
    "ready_ms",
    "job_id",
    "leased_at",
):
    setattr(_first, _name, getattr(LeasedDelivery, _name))
for _name in ("task", "attempt", "started_ms", "took_us", "recorded_ms", "on_outcome"):
    setattr(_first, _name, getattr(LeasedDelivery, _name))
