"""The bound of a queue while its senders and workers are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import QueueFull
from headrace.store.contract import Store
from tests.faults.crew import Crew, WorkerProcess, eventually
from tests.faults.crowding import MOST, NARROW, squeeze

KILLS = 8


async def length(store: Store) -> int:
    """How many jobs have not ended."""
    counts = await store.count(NARROW)
    return counts.waiting + counts.running + counts.scheduled + counts.blocked


async def longest(store: Store, over: asyncio.Event) -> int:
    """Look at the queue again and again; its greatest length."""
    seen = 0
    while not over.is_set():
        seen = max(seen, await length(store))
        await asyncio.sleep(0.005)
    return seen


def started(crew: Crew) -> Iterator[WorkerProcess]:
    """Senders of each kind and workers, in turn."""
    while True:
        for overflow in ("reject", "block", "drop_oldest"):
            yield crew.run("crowding", overflow)
        yield crew.start("-c", "4", app="tests.faults.crowding:app")


async def kill_again_and_again(crew: Crew) -> None:
    """One of each kind in turn, at any moment of its work, and in the end all."""
    rng, starting = random.Random(44), started(crew)
    at_work = [next(starting) for _ in range(4)]
    for _ in range(KILLS):
        victim = at_work.pop(0)
        await victim.works()
        await asyncio.sleep(rng.uniform(0, 0.3))
        victim.kill()
        at_work.append(next(starting))
    for process in at_work:
        process.kill()


async def test_killed_senders_and_workers_leave_a_bound_as_it_was(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        store = (await crew.app.session()).store
        over = asyncio.Event()
        watching = asyncio.create_task(longest(store, over))
        await kill_again_and_again(crew)
        crew.start("-c", "4", app="tests.faults.crowding:app")

        async def is_empty() -> bool:
            return not await length(store)

        await eventually("the queue is empty", is_empty)
        over.set()
        assert await watching == MOST
        assert await crew.dead(NARROW) == {}
        # It has room for as many as ever, and for no more.
        crew.app.queue(NARROW, max_length=MOST)
        later = crew.app.task(name="later", queue=NARROW)(squeeze.function).options(delay=60)
        assert len(await crew.app.enqueue_many(later.call(1) for _ in range(MOST))) == MOST
        with pytest.raises(QueueFull):
            await later.enqueue(1)
