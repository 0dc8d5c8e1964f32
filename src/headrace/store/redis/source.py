"""One queue as a reader sees it, and what a stream entry holds."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from headrace.core.delivery import Delivery
from headrace.errors import StoreError
from headrace.store.redis.link import Link

# What a queue's state was this long ago is what it is; signals tell of changes sooner.
_FRESH = 1.0
_LEFT_ALONE = 0.5


class Source:
    """What a reader knows of one queue."""

    def __init__(self, queue: str, weight: int, ready: str, link: Link) -> None:
        self.queue = queue
        self.weight = weight
        self.ready = ready
        self.link = link
        self.epoch = 0
        """As it was before the latest read: leases of what was read are surely held as long as the
        epoch is the same."""
        self.levels: Sequence[bytes] = ()
        self.paused = False
        self.known_at = float("-inf")
        self.behind = 0.0
        """How many jobs fewer than its share it had in earlier reads."""
        self.trouble: StoreError | None = None
        self._left_alone_until = float("-inf")

    def leave_alone(self, trouble: StoreError) -> None:
        """Do not read it for a moment: its node is away, and others must not wait for it."""
        self.trouble = trouble
        self._left_alone_until = time.monotonic() + _LEFT_ALONE
        self.doubt()

    @property
    def is_left_alone(self) -> bool:
        return time.monotonic() < self._left_alone_until

    def learn(self, levels: Sequence[bytes], paused: int) -> None:
        self.levels = levels
        self.paused = bool(paused)
        self.known_at = time.monotonic()

    def doubt(self) -> None:
        """Have the state read again before the next read."""
        self.known_at = min(self.known_at, time.monotonic() - 2 * _FRESH)

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self.known_at > _FRESH


def delivery_of(
    queue: str, receipt: bytes, fields: list[bytes] | None, stamp: int, count: int = 1
) -> Delivery:
    """What a stream entry holds."""
    if fields and fields[0] == b"j":
        delivery = Delivery(queue, receipt, fields[1])
        for at in range(2, len(fields), 2) if len(fields) > 2 else ():
            name, value = fields[at], fields[at + 1]
            if name == b"h":
                delivery.past = value
            elif name == b"t":
                delivery.ties = value
            elif name == b"i":
                delivery.inputs = value
    else:
        # Not ours: keep all there is, so that it can be looked at among the dead jobs.
        delivery = Delivery(queue, receipt, msgspec.msgpack.encode(fields or []))
    delivery.stamp = stamp
    if count != 1:
        delivery.count = count
    return delivery
