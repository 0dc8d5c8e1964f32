"""Writes outcomes to the store; nothing else does."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from headrace.core.clock import SystemClock
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import Outcome
from headrace.core.job.tally import Tally
from headrace.errors import StoreError
from headrace.store.contract import Consumer, Settlement
from headrace.store.values import IdempotencyKey
from headrace.worker.consume import refusals
from headrace.worker.logs.failure_log import FailureLog
from headrace.worker.logs.leases import report_lost
from headrace.worker.service import Service

_CLOCK = SystemClock()
_IDLE = 3600.0
_LEFT_KNOWN = 10_000

Before = Callable[[str, Sequence[Settlement]], Awaitable[None]]
"""What has to be written before jobs end; must not fail."""
Settled = Callable[[Sequence[Settlement], Sequence[LeasedDelivery]], None]
"""Called with outcomes that were written, and the deliveries among them that were lost."""
Counted = Callable[[str, Tally], None]
"""Called with a queue and the tally of the outcomes that were written for it."""


class Settler(Service):
    """Writes at once when idle; outcomes that come while a write is under way go together in the
    next. What could not be written is kept and written again."""

    name = "settler"
    scope = "settle"

    def __init__(
        self,
        consumer: Consumer,
        held: set[LeasedDelivery],
        before: Before | None = None,
        settled: Settled | None = None,
        counted: Counted | None = None,
        now_ms: Callable[[], int] = _CLOCK.now_ms,
        failures: FailureLog | None = None,
    ) -> None:
        super().__init__()
        self._before = before
        self._settled = settled
        self._counted = counted
        self._consumer = consumer
        self._held = held
        self._now_ms = now_ms
        self._failures = failures or FailureLog()
        self._pending: list[Settlement] = []
        self._batches: list[_SettlementBatch] = []
        self.lost_leases = 0
        self.left: deque[LeasedDelivery] = deque(maxlen=_LEFT_KNOWN)
        """The latest deliveries that were left: still leased to this worker, for a while."""

    def put(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        if not self._pending:
            self.wake()
        self._pending.append(Settlement(delivery, outcome))

    def leave_unsettled(self, delivery: LeasedDelivery) -> None:
        """Write nothing, and stop renewing the lease: when it is over, some worker takes the
        job."""
        self.forget(delivery)
        self.left.append(delivery)

    def forget(self, delivery: LeasedDelivery) -> None:
        """Stop holding a delivery whose outcome is not written."""
        self._held.discard(delivery)

    @property
    def backlog(self) -> int:
        return len(self._pending) + sum(len(batch.settlements) for batch in self._batches)

    async def step(self) -> float:
        if self._pending:
            self._batches += _by_queue(self._pending)
            self._pending = []
        trouble: StoreError | None = None
        for batch in tuple(self._batches):
            # One queue's trouble must not hold back the outcomes of the others.
            trouble = await self._settle(batch) or trouble
        if trouble is not None:
            raise trouble
        return 0.0 if self._pending or self._batches else _IDLE

    async def _settle(self, batch: _SettlementBatch) -> StoreError | None:
        if self._before is not None:
            await self._before(batch.queue, batch.settlements)
        tally = None
        try:
            if self._counted is not None:
                # The store takes it over, so that all is counted once.
                tally = Tally.of(batch.settlements, self._consumer.ready_ms)
            lost = await self._write(batch, tally)
        except Exception as error:
            if refusals.is_of_one(error):
                return await self._divide(batch, error)
            if not isinstance(error, StoreError):
                raise
            return error
        self._batches.remove(batch)
        self._held.difference_update([item.delivery for item in batch.settlements])
        if lost:
            self._report(lost)
        if tally is not None:
            self._count(batch, tally, lost)
        if self._failures.noted:
            self._failures.written(batch.settlements, lost)
        if self._settled is not None:
            self._settled(batch.settlements, lost)
        return None

    async def _write(self, batch: _SettlementBatch, tally: Tally | None) -> list[LeasedDelivery]:
        """Apply a batch. After an error about its content it is tried once more, since such errors
        can be false."""
        tries = 1 if batch.tried else 2
        while True:
            tries -= 1
            repeat, batch.tried = batch.tried, True
            try:
                return await self._consumer.settle(
                    batch.queue,
                    batch.settlements,
                    repeat=repeat,
                    tally=tally,
                    idempotency=batch.idempotency,
                )
            except Exception as error:
                if not tries or not refusals.is_of_one(error):
                    raise

    async def _divide(self, batch: _SettlementBatch, error: Exception) -> StoreError | None:
        """Find the outcome that cannot be written, by halves. A job whose own outcome is refused is
        dead, if that can be written at the same moment; otherwise the store is in trouble, and the
        outcome is kept."""
        trouble = await self._leave_out_written(batch)
        if trouble is not None:
            return trouble
        if not batch.settlements:
            self._batches.remove(batch)
            return None
        if len(batch.settlements) > 1:
            self._batches.remove(batch)
            for part in refusals.parts_of(batch.settlements):
                self._batches.append(_SettlementBatch(batch.queue, part, tried=True))
            return None
        (refused,) = batch.settlements
        instead = refusals.instead_of(refused, error, self._now_ms())
        try:
            lost = await self._consumer.settle(batch.queue, [instead], repeat=True)
        except Exception:
            return error if isinstance(error, StoreError) else StoreError(repr(error))
        self._failures.noted.pop(refused.delivery, None)
        if lost:
            self._report(lost)
        else:
            refusals.report(refused, error)
        self._batches.remove(batch)
        self._held.discard(refused.delivery)
        if self._settled is not None:
            self._settled([instead], lost)
        return None

    async def _leave_out_written(self, batch: _SettlementBatch) -> StoreError | None:
        """Take out of a refused batch what is not held any more: a try of it was carried out, and
        the error was false. Written again as parts of other batches, which the store does not
        recognise, these would count as lost."""
        try:
            gone = set(await self._consumer.renew([item.delivery for item in batch.settlements]))
        except Exception as error:
            return error if isinstance(error, StoreError) else StoreError(repr(error))
        if written := [item for item in batch.settlements if item.delivery in gone]:
            batch.settlements = [item for item in batch.settlements if item.delivery not in gone]
            self._held.difference_update([item.delivery for item in written])
            if self._counted is not None:
                self._counted(batch.queue, Tally.of(written, self._consumer.ready_ms))
            if self._failures.noted:
                self._failures.written(written, [])
            if self._settled is not None:
                # Another worker may have taken them over instead: what it would need stays.
                self._settled(written, [item.delivery for item in written])
        return None

    def _count(self, batch: _SettlementBatch, tally: Tally, lost: Sequence[LeasedDelivery]) -> None:
        if lost:
            kept = [item for item in batch.settlements if item.delivery not in lost]
            tally = Tally.of(kept, self._consumer.ready_ms)
        if self._counted is not None:
            self._counted(batch.queue, tally)

    def _report(self, lost: list[LeasedDelivery]) -> None:
        self.lost_leases += len(lost)
        report_lost(lost)


class _SettlementBatch:
    """Outcomes of one queue that are written together."""

    def __init__(
        self, queue: str, settlements: list[Settlement] | None = None, *, tried: bool = False
    ) -> None:
        self.queue = queue
        self.settlements = settlements or []
        self.idempotency = IdempotencyKey()
        self.tried = tried
        """It may have been written: answers can be lost, and errors can be false."""


def _by_queue(settlements: list[Settlement]) -> list[_SettlementBatch]:
    queues = {item.delivery.queue for item in settlements}
    if len(queues) == 1:
        return [_SettlementBatch(queues.pop(), settlements)]
    batches: dict[str, _SettlementBatch] = {}
    for item in settlements:
        queue = item.delivery.queue
        if queue not in batches:
            batches[queue] = _SettlementBatch(queue)
        batches[queue].settlements.append(item)
    return list(batches.values())
