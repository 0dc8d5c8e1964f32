"""A job in the hands of one worker, under a lease."""

from __future__ import annotations

from headrace.core.ids import JobKey, to_text

Receipt = str | bytes | int


class Delivery:
    """What a store hands to a worker. `receipt` is the store's own name for this delivery, `count`
    says the how-manieth delivery this is since the job came to its present place, `stamp` is for
    the store's own use."""

    # On the hot path: what is the same for most deliveries stands here and is not set on each.
    past = b""
    count = 1
    stamp = 0
    key: JobKey = b""
    """Filled in when the envelope is decoded; stays empty for what is not an envelope."""
    leased_at = 0.0
    """By the worker's monotonic clock; the heartbeat renews leases that are older than a while."""

    def __init__(
        self, queue: str, receipt: Receipt, envelope: bytes, past: bytes = b"", count: int = 1
    ) -> None:
        self.queue = queue
        self.receipt = receipt
        self.envelope = envelope
        if past:
            self.past = past
        if count != 1:
            self.count = count

    @property
    def key_text(self) -> str:
        """The job's id for people; the receipt of what has none."""
        return to_text(self.key) if self.key else f"(entry {self.receipt!r})"

    def __repr__(self) -> str:
        return f"Delivery({self.queue!r}, {self.receipt!r}, count={self.count})"
