"""Keeps as many consumers of each subscription in this worker as its backlog calls for."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from headrace.client.topic.subscription import Subscription
from headrace.core.scaling.scaling import Scaling
from headrace.core.scaling.snapshot import ScalingStrategy
from headrace.core.workers import Scaled, WorkerRecord
from headrace.errors import StoreError
from headrace.store.contract import Store
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.logs.store_outage import level_of
from headrace.worker.service import Service
from headrace.worker.settings import WorkerSettings
from headrace.worker.upkeep.own_strategy import OwnStrategy
from headrace.worker.upkeep.scaled_consumers import Consumers, L
from headrace.worker.upkeep.workload import take_survey, workload_of

log = logging.getLogger("headrace.worker")


class Autoscaler(Service):
    """Checks the backlog of each subscription every `poll` seconds. A backlog that cannot be read
    changes nothing. Trouble with one subscription holds back no other. Surplus consumers are
    drained in the background; `drained` waits for them."""

    name = "autoscaler"
    scope = "scale"

    def __init__(
        self,
        store: Store,
        worker: str,
        consumers: Sequence[Consumers[Any]],
        report: Callable[[str, Scaled], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.consumers = list(consumers)
        self._store = store
        self._worker = worker
        self._report = report
        self._monotonic = monotonic
        self._troubles: dict[str, str] = {}
        self._draining: set[asyncio.Task[None]] = set()

    async def step(self) -> float:
        for consumers in tuple(self.consumers):
            if self.stopping:
                break
            await self._look_after(consumers)
        return min((c.scaler.scaling.poll for c in self.consumers), default=3600.0)

    def add(self, consumers: Consumers[Any]) -> None:
        """Look after the consumers of one more subscription."""
        self.consumers.append(consumers)
        self.wake()

    async def drained(self) -> None:
        """Wait until all removed consumers have ended."""
        while self._draining:
            await asyncio.wait(self._draining)

    async def _look_after(self, consumers: Consumers[Any]) -> None:
        name = consumers.workload.name
        try:
            await self._adjust(consumers)
        except StoreError as error:
            consumers.scaler.blind()
            if self._troubles.get(name) != str(error):
                log.log(
                    level_of(error),
                    "the consumers of %s stay as they are: %s",
                    *(name, error),
                    extra={"subscription": name},
                )
                self.observe(self.scope, error, {"subscription": name})
            self._troubles[name] = str(error)
        except Exception as error:
            self._crashed(consumers, error)
        else:
            self._troubles.pop(name, None)
        self._report(name, consumers.scaled())

    async def _adjust(self, consumers: Consumers[Any]) -> None:
        self._drain(consumers, consumers.take_broken(self._monotonic()))
        if not consumers.scaler.scaling.fixed:
            await self._decide(consumers)
        if not self.stopping:
            self._drain(consumers, consumers.take_surplus())
            await consumers.fill(self._monotonic())

    def _crashed(self, consumers: Consumers[Any], error: Exception) -> None:
        self.crashes += 1
        consumers.scaler.blind()
        pause = consumers.failed(self._monotonic())
        name = consumers.workload.name
        log.error(
            "the consumers of %s could not be looked after; none is started for %g s",
            *(name, pause),
            exc_info=error,
            extra={"subscription": name},
        )
        self.observe(self.scope, error, {"subscription": name, "crashed": True})

    async def _decide(self, consumers: Consumers[Any]) -> None:
        survey = await take_survey(self._store, [consumers.workload])
        loads = survey.loads(consumers.active, self._is_here)
        decision = consumers.scaler.decide(self._monotonic(), *loads)
        if decision.reason:
            log.info(
                "consumers of %s: %s",
                consumers.workload.name,
                decision.why,
                extra={"subscription": consumers.workload.name},
            )

    def _is_here(self, worker: WorkerRecord) -> bool:
        return worker.name == self._worker

    def _drain(self, consumers: Consumers[L], loops: Sequence[L]) -> None:
        for loop in loops:
            # In the background: draining takes as long as the longest run.
            self._begin(consumers.remove(loop))

    def _begin(self, draining: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(draining, name="headrace-draining")
        self._draining.add(task)
        task.add_done_callback(self._drained_one)

    def _drained_one(self, task: asyncio.Task[None]) -> None:
        self._draining.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashes += 1
            log.error(
                "a consumer could not be drained", exc_info=error, extra={"error": repr(error)}
            )


def autoscaler_of(
    store: Store,
    settings: WorkerSettings,
    loops: ConsumerLoops,
    report: Callable[[str, Scaled], None],
    strategy: ScalingStrategy | None,
) -> Autoscaler:
    """The autoscaler of all subscriptions of a worker, scaled or not."""
    consumers = [consumers_of(one, settings, loops, strategy) for one in settings.subscriptions]
    return Autoscaler(store, settings.name, consumers, report)


def consumers_of(
    one: Subscription[..., Any],
    settings: WorkerSettings,
    loops: ConsumerLoops,
    strategy: ScalingStrategy | None,
) -> Consumers[Any]:
    """The consumers of a subscription, as it wants them."""
    return Consumers(
        workload_of(one, settings),
        Scaling.of(*settings.scale_of(one), os.environ),
        OwnStrategy.of(strategy),
        loops=partial(loops.of, one),
        add=partial(loops.add, one),
        remove=loops.remove,
        now=time.monotonic(),
    )
