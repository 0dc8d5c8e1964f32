"""What a consumer loop may ask the store for, by what its worker can start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from headrace.core.job.capacity import Capacity, Runner
from headrace.worker.run.slots import Slots


class StartRoom(Protocol):
    """What is needed of the runners."""

    def room(self, runner: Runner) -> int:
        """How many more functions of this runner, not `loop`, would begin now or soon."""
        ...

    def collect(self) -> None: ...
    def when_freed(self, freed: Callable[[], None]) -> None: ...
    def forget(self, freed: Callable[[], None]) -> None: ...


class Places:
    """Free slots, and the threads and processes of the worker. A loop whose functions all have one
    `runner` asks for as many as that can start; else for as many of each."""

    def __init__(self, slots: Slots, runners: StartRoom, runner: Runner | None = None) -> None:
        self.slots = slots
        self._runners = runners
        self._runner = runner
        self._asked: Capacity | None = None
        self._freed = asyncio.Event()
        runners.when_freed(self._look)

    @property
    def are_slots(self) -> bool:
        """Whether slots are all that counts."""
        return self._runner == "loop"

    async def wait(self) -> None:
        """Return when something can be started, or when `poke` is called."""
        # Before the first wait, so that a poke during it ends the second one too.
        self._freed.clear()
        await self.slots.wait()
        if self._runner is None or self._runner == "loop":
            return
        if self._room(self._runner) <= 0:
            await self._freed.wait()

    def free(self) -> int:
        """How many deliveries can be taken in all, without any held ahead of their slot."""
        return self._bounded(min(self.slots.free, self.slots.room))

    def room(self) -> int:
        """How many deliveries can be taken in all, with those held ahead of their slot."""
        return self._bounded(self.slots.room)

    def _bounded(self, most: int) -> int:
        if self._runner is None or self._runner == "loop":
            return most
        return min(most, self._room(self._runner) + self.slots.batch_extra)

    def capacity(self, limit: int) -> Capacity | None:
        """How many of each runner, if `limit` are asked for in all."""
        if self._runner is not None:
            return None
        extra = self.slots.batch_extra
        self._asked = Capacity(
            limit,
            min(limit, self._room("thread") + extra),
            min(limit, self._room("process") + extra),
        )
        return self._asked

    async def more_than_asked(self) -> None:
        """Return when a runner can start something for which `capacity` had no room."""
        while not self._has_more():
            self._freed.clear()
            await self._freed.wait()

    def learn(self, seconds: float, *, asked: int, came: int) -> None:
        """See `Slots.learn`; counts what has ended up to now."""
        self._runners.collect()
        self.slots.learn(seconds, asked=asked, came=came)

    def poke(self) -> None:
        self.slots.poke()
        self._freed.set()

    def close(self) -> None:
        self._runners.forget(self._look)

    def _room(self, runner: Runner) -> int:
        return self._runners.room(runner)

    def _has_more(self) -> bool:
        asked = self._asked
        if asked is None:
            return False
        return any(
            asked.of(runner) == 0 and self._room(runner) > 0 for runner in ("thread", "process")
        )

    def _look(self) -> None:
        self._freed.set()
