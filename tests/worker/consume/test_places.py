"""What a consumer loop waits for before it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.core.job.capacity import Runner
from headrace.worker.consume.places import Places
from headrace.worker.run.slots import Slots


class Busy:
    """Runners all of whose threads and processes are at work."""

    def room(self, runner: Runner) -> int:
        return 0

    def collect(self) -> None: ...
    def when_freed(self, freed: Callable[[], None]) -> None: ...
    def forget(self, freed: Callable[[], None]) -> None: ...


async def test_a_poke_ends_the_wait_though_neither_slot_nor_thread_is_free() -> None:
    slots = Slots(1)
    slots.take(1)
    places = Places(slots, Busy(), "thread")
    waiting = asyncio.create_task(places.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    places.poke()
    await asyncio.wait_for(waiting, 30)


async def test_a_wait_does_not_end_while_all_threads_are_busy() -> None:
    places = Places(Slots(1), Busy(), "thread")
    waiting = asyncio.create_task(places.wait())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    places.poke()
    await asyncio.wait_for(waiting, 30)
