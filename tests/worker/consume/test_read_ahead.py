"""Functions that end at once are read by more than there are slots for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from headrace import Headrace
from headrace.worker.consume.reader import QueueReader
from tests.faults.crew import eventually
from tests.worker.states import AtOnce, until

SLOTS, QUICK, SLOW = 4, 600, 40


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each read asked for."""
    asked: list[int] = []
    share = QueueReader._share

    def noted(self: QueueReader, came: int = 0) -> int:
        asked.append(share(self, came))
        return asked[-1]

    monkeypatch.setattr(QueueReader, "_share", noted)
    return asked


async def test_quick_functions_are_read_by_the_hundred(app: Headrace, shares: list[int]) -> None:
    ran: Counter[int] = Counter()

    @app.task(result_ttl=0)
    async def quick(number: int) -> None:
        ran[number] += 1

    await app.enqueue_many(quick.call(number) for number in range(QUICK))
    async with app.worker(concurrency=SLOTS):
        await until(lambda: len(ran) == QUICK)
    assert max(shares) > SLOTS
    assert set(ran.values()) == {1}


async def test_queues_share_what_is_read_ahead(app: Headrace, shares: list[int]) -> None:
    ran: list[str] = []

    @app.task(result_ttl=0)
    async def quick(queue: str) -> None:
        ran.append(queue)

    for weights in ({"mail": 3, "reports": 1}, {"mail": 1, "reports": 1}):
        ran.clear()
        shares.clear()
        for queue in weights:
            await app.enqueue_many(quick.options(queue=queue).call(queue) for _ in range(QUICK))
        async with app.worker(queues=weights, concurrency=1):
            await until(lambda: len(ran) == 2 * QUICK)
        assert max(shares) > SLOTS
        part = weights["mail"] / sum(weights.values())
        for count in range(1, QUICK):
            assert abs(ran[:count].count("mail") - count * part) <= 2


async def test_functions_that_wait_stay_within_the_slots(app: Headrace) -> None:
    runs = AtOnce()

    @app.task(result_ttl=0)
    async def mixed(number: int) -> None:
        with runs:
            if number % 3 == 0:
                await asyncio.sleep(0.001)

    await app.enqueue_many(mixed.call(number) for number in range(QUICK))
    async with app.worker(concurrency=SLOTS):
        await until(lambda: runs.ended == QUICK)
    assert 1 < runs.most <= SLOTS


async def test_quick_plain_functions_are_read_by_the_hundred(
    app: Headrace, shares: list[int]
) -> None:
    ran: Counter[int] = Counter()
    runs = AtOnce()

    @app.task(result_ttl=0)
    def quick(number: int) -> None:
        with runs:
            ran[number] += 1

    await app.enqueue_many(quick.call(number) for number in range(QUICK))
    async with app.worker(concurrency=SLOTS, threads=2):
        await until(lambda: runs.ended == QUICK)
    assert max(shares) > SLOTS
    assert runs.most <= 2
    assert set(ran.values()) == {1}


async def test_functions_on_the_loop_and_in_threads_share_the_slots(app: Headrace) -> None:
    runs = AtOnce()

    @app.task(result_ttl=0)
    def plain(number: int) -> None:
        with runs:
            if number % 3 == 0:
                time.sleep(0.001)

    @app.task(result_ttl=0)
    async def waiting(number: int) -> None:
        with runs:
            if number % 5 == 0:
                await asyncio.sleep(0.001)

    for start in range(0, QUICK, 50):
        numbers = range(start, start + 50)
        await app.enqueue_many(plain.call(number) for number in numbers)
        await app.enqueue_many(waiting.call(number) for number in numbers)
    async with app.worker(concurrency=SLOTS, threads=SLOTS - 1):
        await until(lambda: runs.ended == 2 * QUICK)
    assert 1 < runs.most <= SLOTS


async def test_plain_functions_begin_while_those_on_the_loop_have_most_slots(
    app: Headrace,
) -> None:
    ran: Counter[int] = Counter()
    begun, go_on = 0, asyncio.Event()

    @app.task(result_ttl=0)
    def plain(number: int) -> None:
        ran[number] += 1

    @app.task(result_ttl=0)
    async def waiting() -> None:
        nonlocal begun
        begun += 1
        await go_on.wait()

    await app.enqueue_many(waiting.call() for _ in range(SLOTS - 1))
    async with app.worker(concurrency=SLOTS, threads=1):
        await until(lambda: begun == SLOTS - 1)
        await app.enqueue_many(plain.call(number) for number in range(QUICK))
        await until(lambda: len(ran) == QUICK)
        go_on.set()
    assert set(ran.values()) == {1}


async def test_what_was_read_too_early_goes_back_to_others(app: Headrace) -> None:
    """Slow jobs come behind quick ones: an idle worker gets what the first one cannot start."""
    ran: Counter[int] = Counter()
    begun: Counter[int] = Counter()
    go_on = asyncio.Event()

    @app.task(result_ttl=0)
    async def quick(number: int) -> None:
        ran[number] += 1

    @app.task(result_ttl=0)
    async def slow(number: int) -> int:
        begun[number] += 1
        await go_on.wait()
        return number

    await app.enqueue_many(quick.call(number) for number in range(QUICK))
    await app.enqueue_many(slow.call(number) for number in range(SLOW))

    async def rest_waits() -> bool:
        counts = await app.store.count("default")
        return (counts.running, counts.waiting) == (SLOTS, SLOW - SLOTS)

    async with app.worker(concurrency=SLOTS):
        await eventually("the others are back in the queue", rest_waits)
        assert sorted(begun) == list(range(SLOTS)), "in their order"
        async with app.worker(concurrency=SLOW):
            await until(lambda: len(begun) == SLOW)
            go_on.set()
            await eventually("all are done", lambda: _is_empty(app))
    assert set(ran.values()) == {1}
    assert len(ran) == QUICK
    assert set(begun.values()) == {1}


async def _is_empty(app: Headrace) -> bool:
    counts = await app.store.count("default")
    return not counts.running + counts.waiting
