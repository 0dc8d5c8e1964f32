"""Makes the consumer loops of a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.subscription import Subscription
from headrace.core.queue_names import log_name
from headrace.store.contract import StoreConsumer
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.consume.tail import Tail
from headrace.worker.run.ack_policy import (
    AckManually,
    AckOnReceive,
    AckOnSuccess,
    AckPolicy,
    NoAck,
)
from headrace.worker.run.slots import Slots
from headrace.worker.services import WorkerServices

if TYPE_CHECKING:
    from headrace.worker.worker import Worker

_POLICIES: dict[str, type[AckOnSuccess]] = {
    "success": AckOnSuccess,
    "receive": AckOnReceive,
    "manual": AckManually,
}


class ConsumerLoops:
    """One loop for all ordinary queues of the worker, and loops for subscriptions. `died` is told
    of the queues of groups in which an event went dead."""

    def __init__(
        self,
        worker: Worker,
        shared: WorkerServices,
        died: Callable[[Subscription[..., Any], str], None],
    ) -> None:
        self._worker = worker
        self._shared = shared
        self._died = died
        self._made: dict[str, int] = {}

    def consumer(self, name: str, queues: Sequence[str]) -> StoreConsumer:
        """The store's side of a loop of a group, whose shards share its reads alike."""
        return self._shared.app.store.consumer(name, queues, self._shared.app.lease)

    def of_jobs(self) -> ConsumerLoop:
        worker = self._worker
        consumer = self._shared.app.store.consumer(
            worker.name, worker.weights, self._shared.app.lease, strict=worker.strict
        )
        slots = Slots(worker.concurrency)
        return ConsumerLoop(
            "jobs",
            self._shared,
            consumer,
            consumer,
            worker.queues,
            self._shared.app.tasks,
            slots=slots,
            policy=AckPolicy(),
            auditing=self._shared.auditing(),
        )

    def of_group(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        """One more consumer of a group."""
        number = self._made[subscription.name] = self._made.get(subscription.name, 0) + 1
        # Two consumers of one name must not read the same queue: each would take what the other
        # was just given for lost, and hand back what the other holds when it leaves.
        worker = self._worker.name if number == 1 else f"{self._worker.name}+{number}"
        consumer = self.consumer(worker, subscription.queues)
        died = partial(self._died, subscription)
        slots = Slots(places(subscription, self._worker.concurrency))
        has_handler = subscription.dead_handler is not None
        return ConsumerLoop(
            f"{subscription.name}-{number}",
            self._shared,
            consumer,
            consumer,
            subscription.queues,
            {log_name(subscription.topic.name): subscription},
            slots=slots,
            policy=_POLICIES[subscription.wants.ack](slots, died if has_handler else None),
            auditing=self._shared.auditing(subscription),
            ready=partial(subscription.join, self._shared.app.store),
        )

    def of_broadcast(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        tail = Tail(self._shared.app.store, self._worker.name, subscription.queues)
        # One after the other, unless the function is said to be able to do more.
        slots = Slots(subscription.wants.max_in_flight or 1)
        return ConsumerLoop(
            subscription.name,
            self._shared,
            tail,
            None,
            (),
            {log_name(subscription.topic.name): subscription},
            slots=slots,
            policy=NoAck(slots),
            auditing=self._shared.auditing(subscription),
            ready=tail.take_place,
            scope="broadcast",
        )


def places(subscription: Subscription[..., Any], concurrency: int) -> int:
    """How many events one consumer of a group may hold at once. By default two batches fit, so that
    one is read while the other runs."""
    if subscription.wants.max_in_flight is not None:
        return subscription.wants.max_in_flight
    return max(concurrency, 2 * (subscription.declared.batch or 0))
