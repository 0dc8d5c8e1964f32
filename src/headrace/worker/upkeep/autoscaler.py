"""Keeps as many consumers of each subscription in this worker as its backlog calls for."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from headrace.core.breaker import QUICK_DEATHS, SURVIVAL, Breaker
from headrace.core.scaling import Scaler, Scaling
from headrace.core.workers import Scaled, WorkerRecord
from headrace.errors import StoreError
from headrace.store.contract import Store
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.logs.store_outage import level_of
from headrace.worker.service import Service
from headrace.worker.settings import WorkerSettings
from headrace.worker.upkeep.workload import Workload, take_survey, workload_of
from headrace.worker.worker_outcome import WorkerOutcome

log = logging.getLogger("headrace.worker")

# A loop goes on after a crash inside it; after this many it is replaced.
CRASHES = 5


class ScaledLoop(Protocol):
    """What the autoscaler needs of a `ConsumerLoop`, which is one consumer."""

    @property
    def in_flight(self) -> int: ...
    @property
    def failure(self) -> BaseException | None: ...
    @property
    def tally(self) -> WorkerOutcome: ...


L = TypeVar("L", bound=ScaledLoop)


class Consumers(Generic[L]):
    """The consumers of one subscription in this worker. `loops` gives all of them, `add` starts one
    more, `remove` drains one and keeps its tally."""

    def __init__(
        self,
        workload: Workload,
        scaling: Scaling,
        *,
        loops: Callable[[], Sequence[L]],
        add: Callable[[], Awaitable[L]],
        remove: Callable[[L], Coroutine[Any, Any, None]],
        now: float,
    ) -> None:
        self.workload = workload
        self.scaler = Scaler(scaling)
        self.breaker = Breaker()
        self._add = add
        self.remove = remove
        self._loops = loops
        self._since = dict.fromkeys(loops(), now)
        self._leaving: set[L] = set()
        self._due_at = now

    @property
    def active(self) -> int:
        """The number that work; those that drain do not count."""
        return len(self._working())

    def _working(self) -> list[L]:
        return [loop for loop in self._loops() if loop not in self._leaving]

    def scaled(self) -> Scaled:
        """Their number, and the reasons for it, for people to see."""
        slots = self.active * self.workload.each
        return Scaled.of(self.scaler, self.breaker, self.active, slots)

    def take_broken(self, now: float) -> list[L]:
        """Loops that died, or crash again and again; from now on they do not count."""
        broken = [loop for loop in self._working() if loop.failure or loop.tally.crashes >= CRASHES]
        self._leaving.update(broken)
        for loop in broken:
            pause = self._postpone(now, now - self._since[loop])
            log.error(
                "a consumer of %s is broken after %d crashes; a new one starts in %g s",
                *(self.workload.name, loop.tally.crashes, pause),
                exc_info=loop.failure,
                extra={"subscription": self.workload.name},
            )
        return broken

    def take_surplus(self) -> list[L]:
        """Surplus loops: the idlest first, and the youngest of those."""
        working = self._working()
        working.sort(key=lambda loop: (loop.in_flight, -self._since[loop]))
        surplus = working[: max(len(working) - self.scaler.target, 0)]
        self._leaving.update(surplus)
        return surplus

    def failed(self, now: float) -> float:
        """Note a failure; the seconds for which none is started."""
        return self._postpone(now, 0.0)

    def _postpone(self, now: float, lived: float) -> float:
        was = self.breaker.state
        pause = self.breaker.died(now, lived, self.active)
        due_at = now + pause
        # One has to work, however long others wait.
        alone = self.breaker.state == "open" and not self.active
        self._due_at = due_at if alone else max(self._due_at, due_at)
        if was == "closed" and self.breaker.state == "open":
            log.error(
                "%d consumers of %s broke soon after their start; until a new one lives for %g s, "
                "no other is started, and one is kept going",
                *(QUICK_DEATHS, self.workload.name, SURVIVAL),
                extra={"subscription": self.workload.name},
            )
        return pause

    async def fill(self, now: float) -> None:
        """Start missing ones, as far as the breaker allows."""
        there = set(self._loops())
        self._leaving &= there
        self._since = {loop: since for loop, since in self._since.items() if loop in there}
        while self.active < self.scaler.target and now >= self._due_at:
            wait = self.breaker.wait(now)
            if wait > 0:
                self._due_at = now + wait
                return
            self._since[await self._add()] = now
            self.breaker.started(now)


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
        self.consumers = consumers
        self._store = store
        self._worker = worker
        self._report = report
        self._monotonic = monotonic
        self._poll = min((c.scaler.scaling.poll for c in consumers), default=3600.0)
        self._troubles: dict[str, str] = {}
        self._draining: set[asyncio.Task[None]] = set()

    async def step(self) -> float:
        for consumers in self.consumers:
            if self.stopping:
                break
            await self._look_after(consumers)
        return self._poll

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
) -> Autoscaler:
    """The autoscaler of all subscriptions of a worker, scaled or not."""
    now, consumers = time.monotonic(), []
    for one in settings.subscriptions:
        scaling = Scaling.of(*(one.wants.scale or (1, 1)), os.environ)
        consumers.append(
            Consumers(
                workload_of(one, settings.concurrency, settings.threads),
                scaling,
                loops=partial(loops.of, one),
                add=partial(loops.add, one),
                remove=loops.remove,
                now=now,
            )
        )
    return Autoscaler(store, settings.name, consumers, report)
