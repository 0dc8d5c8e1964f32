"""One queue as a reader sees it, and the delivery that a stream entry holds."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.delivery import LeasedDelivery, Receipt
from headrace.errors import StoreError
from headrace.store.redis.connection.link import Link
from headrace.store.redis.encoding import envelope_of
from headrace.store.redis.keys import BATCHES, LOG, QueueKeys, runner_of_label

# A queue's state counts as known for this long; notifications announce changes sooner.
_FRESH = 1.0
_LEFT_ALONE = 0.5


class ReadSource:
    """What a reader knows of one queue."""

    def __init__(self, keys: QueueKeys, weight: int, link: Link) -> None:
        self.queue = keys.queue
        self.group = keys.group
        self.weight = weight
        self.ready = keys.ready
        self.log = keys.log if keys.log != keys.ready else ""
        """The log of the topic, if this is the queue of a group."""
        self.link = link
        self.waiting = 0
        """For such a queue: how many jobs of its own were waiting at the last look."""
        self.last = "0-0"
        """The last event of the log that an ordered group was given, and whether there is more."""
        self.more = False
        self.is_full = False
        """Whether too many events of an ordered group are blocked for it to be given more."""
        self.epoch = 0
        """The epoch before the latest read: while it is unchanged, the leases of what was read are
        held."""
        self.levels: Sequence[bytes] = ()
        """The labels of its streams beside `ready`."""
        self.has_priorities = False
        self.most = 0
        """How many of its jobs may be leased at a time, by all workers together; 0 for any
        number."""
        self.ends: dict[str, str] = {}
        """If it has room for more, and had nothing at the last read: the last entry of each stream
        that was read, by the name of the stream."""
        self.returned: Collection[bytes] = ()
        """The labels of streams in which something was handed back, or a batch waits."""
        self.paused = False
        self.known_at = float("-inf")
        self.doubts = 0
        """How often its state was called into doubt."""
        self.behind = 0.0
        """How many jobs it is behind its share in earlier reads."""
        self.trouble: StoreError | None = None
        self._left_alone_until = float("-inf")

    def leave_alone(self, trouble: StoreError) -> None:
        """Do not read it for a moment: its node is unreachable, and other queues must not wait."""
        self.trouble = trouble
        self._left_alone_until = time.monotonic() + _LEFT_ALONE
        self.doubt()

    @property
    def is_left_alone(self) -> bool:
        return time.monotonic() < self._left_alone_until

    def learn(
        self,
        levels: Sequence[bytes],
        returned: Collection[bytes],
        paused: int,
        waiting: int = 0,
    ) -> None:
        self.levels = levels
        self.has_priorities = any(level[-1:].isdigit() for level in levels)
        self.returned = returned
        self.paused = bool(paused)
        self.waiting = waiting
        self.known_at = time.monotonic()

    def needs_script(self, capacity: Capacity) -> bool:
        """Whether one of its jobs goes before another that a plain read would bring."""
        if self.has_priorities or self.most:
            return True
        return any(capacity.of(runner_of_label(label)) > 0 for label in self.returned)

    def readable(self, keys: QueueKeys, capacity: Capacity) -> list[tuple[str, Runner]]:
        """The streams of runners with capacity, the highest priority first; without those of
        batches: a plain read could bring a part of one."""
        found: list[tuple[str, Runner]] = []
        for level in self.levels:
            runner = runner_of_label(level)
            if capacity.of(runner) > 0 and level[:1] != BATCHES:
                found.append((f"{keys.level}{level.decode()}", runner))
        return [*found, (self.ready, "loop")] if capacity.loop > 0 else found

    def note_ends(self, keys: QueueKeys, ends: Sequence[bytes]) -> None:
        """Remember the last entries read, given as labels and ids in turn."""
        for label, id in zip(ends[::2], ends[1::2], strict=True):
            self.ends[f"{keys.level}{label.decode()}" if label else self.ready] = id.decode()

    def streams(self, keys: QueueKeys) -> list[tuple[str, bytes]]:
        """The streams of its jobs, each with the prefix of its receipts."""
        found = [(f"{keys.level}{level.decode()}", level + b"/") for level in self.levels]
        found.append((self.ready, b""))
        return [*found, (self.log, LOG)] if self.log else found

    def doubt(self) -> None:
        """Read the state again before the next read."""
        self.doubts += 1
        self.known_at = min(self.known_at, time.monotonic() - 2 * _FRESH)

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self.known_at > _FRESH


def ready_ms(receipt: Receipt) -> int:
    """When the entry was added to its stream; 0 if the receipt is not of an entry."""
    if not isinstance(receipt, bytes):
        return 0
    time = receipt[receipt.rfind(b"/") + 1 :].partition(b"-")[0]
    return int(time) if time.isdigit() else 0


def delivery_of(
    queue: str, receipt: bytes, fields: list[bytes] | None, epoch: int, count: int = 1
) -> LeasedDelivery:
    """What a stream entry holds."""
    if fields and fields[0] == b"j":
        delivery = LeasedDelivery(queue, receipt, fields[1])
        # The key of an event constrains it only in the queue of an ordered group, not in the log.
        more = len(fields) > 2 and not receipt.startswith(LOG)
        for at in range(2, len(fields), 2) if more else ():
            name, value = fields[at], fields[at + 1]
            if name == b"h":
                delivery.history = value
            elif name == b"t":
                delivery.constraints = value
            elif name == b"i":
                delivery.inputs = value
            elif name == b"b":
                delivery.batch = value
    else:
        delivery = LeasedDelivery(queue, receipt, envelope_of(fields or []))
    delivery.epoch = epoch
    if count != 1:
        delivery.count = count
    return delivery
