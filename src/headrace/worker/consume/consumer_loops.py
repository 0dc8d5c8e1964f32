"""The consumer loops of a worker: made, added and removed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from headrace.client.topic.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.queue_names import log_name
from headrace.store.contract import StoreConsumer
from headrace.store.deaths import DeathListener
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.consume.heartbeat import Leases
from headrace.worker.consume.start_recorder import Runs
from headrace.worker.consume.tail import Tail
from headrace.worker.run.ack_policy import (
    AckManually,
    AckOnReceive,
    AckOnSuccess,
    AckPolicy,
    Died,
    NoAck,
    ReportDeaths,
)
from headrace.worker.run.run import Run
from headrace.worker.run.slots import HELD, Slots
from headrace.worker.settings import WorkerSettings
from headrace.worker.shared_services import SharedServices
from headrace.worker.worker_outcome import WorkerOutcome

_LEAVE_GRACE = 2.0

_POLICIES: dict[str, type[AckOnSuccess]] = {
    "success": AckOnSuccess,
    "receive": AckOnReceive,
    "manual": AckManually,
}


class ConsumerLoops:
    """One loop for all ordinary queues, at least one for each subscription, one for each broadcast.
    Those of subscriptions come and go. `died` is called with the queue of a group in which an event
    went dead, `job_died`, if given, with that of a job, `died_in_store` with what dies without a
    run."""

    new_loop = ConsumerLoop

    def __init__(
        self,
        settings: WorkerSettings,
        shared: SharedServices,
        died: Callable[[Subscription[..., Any], str], None],
        hurrying: asyncio.Event,
        died_in_store: DeathListener,
        job_died: Died | None = None,
    ) -> None:
        self._died_in_store, self._job_died = died_in_store, job_died
        self._settings = settings
        self._shared = shared
        self._died = died
        self._hurrying = hurrying
        self._numbers: dict[str, int] = {}
        self._loops: list[ConsumerLoop] = []
        self._groups: dict[ConsumerLoop, Subscription[..., Any]] = {}
        self._removed = WorkerOutcome()
        self.upkeep = self._make_loops()

    def _make_loops(self) -> StoreConsumer:
        """Make the first loops. Returns the consumer through which all queues are looked after."""
        settings = self._settings
        upkeep: StoreConsumer | None = None
        if settings.weights:
            self._loops.append(jobs := self._of_jobs())
            upkeep = jobs.upkeep
        for subscription in settings.subscriptions:
            least, _ = settings.scale_of(subscription)
            for _ in range(least):
                self._of_group(subscription)
        for broadcast in settings.broadcasts:
            self._of_broadcast(broadcast)
        return upkeep or self._consumer(settings.name, ())

    # All of them; from any thread

    def __iter__(self) -> Iterator[ConsumerLoop]:
        # Copied in one go: the list may change meanwhile.
        return iter(tuple(self._loops))

    @property
    def runs(self) -> list[Run]:
        return [run for loop in self for run in loop.runs]

    @property
    def running(self) -> list[Runs]:
        return [(loop.consumer, loop.held, loop.runs) for loop in self]

    @property
    def leases(self) -> list[Leases]:
        return [(loop.consumer, loop.held) for loop in self]

    @property
    def tally(self) -> WorkerOutcome:
        """What they counted, with those that were removed."""
        return sum((loop.tally for loop in self), self._removed)

    def lose(self, deliveries: Sequence[LeasedDelivery]) -> None:
        for loop in self:
            loop.lose(deliveries)

    # Those of subscriptions

    @property
    def of_groups(self) -> list[ConsumerLoop]:
        return list(self._groups)

    def of(self, subscription: Subscription[..., Any]) -> list[ConsumerLoop]:
        return [loop for loop, one in self._groups.items() if one is subscription]

    async def add(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        """Start one more consumer of a subscription; if that fails, nothing is left behind."""
        return await self._started(self._of_group(subscription))

    async def add_broadcast(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        """Start the loop of a broadcast; if that fails, nothing is left behind."""
        return await self._started(self._of_broadcast(subscription))

    async def _started(self, loop: ConsumerLoop) -> ConsumerLoop:
        try:
            await loop.prepare()
        except BaseException:
            await self.remove(loop)
            raise
        loop.start()
        return loop

    async def remove(self, loop: ConsumerLoop, drain: float | None = None) -> None:
        """End a loop: it takes nothing more, and its runs have `drain` seconds to end, by default
        the worker's. If this is cut short, the loop ends with the worker."""
        seconds = self._settings.drain if drain is None else drain
        await loop.drain(time.monotonic() + seconds, self._hurrying)
        await loop.close()
        await wait_briefly(loop.leave())
        if loop in self._loops:
            self._loops.remove(loop)
            self._groups.pop(loop, None)
            self._removed += loop.tally

    # How each is made

    def _consumer(self, name: str, queues: Sequence[str]) -> StoreConsumer:
        app = self._shared.app
        return app.store.consumer(name, queues, app.lease, on_deaths=self._died_in_store)

    def _of_jobs(self) -> ConsumerLoop:
        settings, app = self._settings, self._shared.app
        consumer = app.store.consumer(
            settings.name,
            settings.weights,
            app.lease,
            strict=settings.strict,
            on_deaths=self._died_in_store,
            concurrency=settings.queue_concurrency,
        )
        auditing = self._shared.auditing()
        # A job is in hand until it is recorded, also one that is refused before it begins.
        most = HELD if auditing is None else 0
        return self.new_loop(
            "jobs",
            self._shared,
            consumer,
            consumer,
            settings.queues,
            app.tasks,
            slots=Slots(settings.concurrency, most, settings.threads),
            policy=AckPolicy() if self._job_died is None else ReportDeaths(self._job_died),
            auditing=auditing,
            weights=None if settings.strict or len(settings.weights) < 2 else settings.weights,
        )

    def _of_group(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        number = self._numbers[subscription.name] = self._numbers.get(subscription.name, 0) + 1
        # Two consumers of one name must not read the same queue: each would take what the other
        # was just given for lost, and hand back what the other holds when it leaves.
        name = self._settings.name if number == 1 else f"{self._settings.name}+{number}"
        consumer = self._consumer(name, subscription.queues)
        died = partial(self._died, subscription)
        slots = Slots(self._settings.slots_of(subscription))
        has_handler = subscription.dead_handler is not None
        loop = self.new_loop(
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
            runner=subscription.declared.run_in,
        )
        self._loops.append(loop)
        self._groups[loop] = subscription
        return loop

    def _of_broadcast(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        tail = Tail(self._shared.app.store, self._settings.name, subscription.queues)
        # One at a time, unless the declaration allows more.
        slots = Slots(subscription.wants.max_in_flight or 1)
        loop = self.new_loop(
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
            runner=subscription.declared.run_in,
            scope="broadcast",
        )
        self._loops.append(loop)
        return loop


async def wait_briefly(*works: Awaitable[None]) -> None:
    """Do all of it, for at most two seconds: the store may not answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEAVE_GRACE):
            await asyncio.gather(*works, return_exceptions=True)
