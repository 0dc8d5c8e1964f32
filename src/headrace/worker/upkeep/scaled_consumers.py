"""The consumers of one subscription in this worker, as their number goes up and down."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from headrace.core.breaker import QUICK_DEATHS, SURVIVAL, Breaker
from headrace.core.scaling.scaler import Scaler
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import Scaled
from headrace.worker.upkeep.own_strategy import OwnStrategy
from headrace.worker.upkeep.workload import Workload
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
        strategy: OwnStrategy | None = None,
        *,
        loops: Callable[[], Sequence[L]],
        add: Callable[[], Awaitable[L]],
        remove: Callable[[L], Coroutine[Any, Any, None]],
        now: float,
    ) -> None:
        self.workload = workload
        self.scaler = Scaler(scaling, strategy, name=workload.name)
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
