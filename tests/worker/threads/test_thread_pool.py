"""Threads that take call after call, and a loop that is woken once for many."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest

from headrace.worker.run.look_ahead import LookAhead
from headrace.worker.threads.thread_place import ThreadPlace
from headrace.worker.threads.thread_pool import ThreadCall, ThreadPool

LONG = 30.0


class Note(ThreadCall):
    """Writes down that it ran, then waits for `gate` if it has one."""

    def __init__(
        self, number: int, ran: list[int], ended: Callable[[], None], gate: threading.Event | None
    ) -> None:
        self.number = number
        self.begun = threading.Event()
        self.at = 0.0
        self._ran = ran
        self._ended = ended
        self._gate = gate

    def perform(self) -> None:
        self.begun.set()
        if self._gate is not None:
            assert self._gate.wait(LONG)
        self._ran.append(self.number)

    def ended(self, at: float) -> None:
        self.at = at
        self._ended()


class Calls:
    """Submits calls to a pool, and waits for their ends."""

    def __init__(self, threads: int) -> None:
        self.pool = ThreadPool(threads)
        self.ran: list[int] = []
        self.ends = 0
        self._changed = asyncio.Event()

    def submit(self, number: int, gate: threading.Event | None = None) -> Note:
        note = Note(number, self.ran, self._ended, gate)
        self.pool.submit(note)
        return note

    def _ended(self) -> None:
        self.ends += 1
        self._changed.set()

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(LONG):
            while self.ends < count:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
async def one() -> AsyncIterator[Calls]:
    calls = Calls(1)
    yield calls
    calls.pool.close()


@pytest.fixture
async def four() -> AsyncIterator[Calls]:
    calls = Calls(4)
    yield calls
    calls.pool.close()


async def _begun(note: Note) -> None:
    async with asyncio.timeout(LONG):
        while not note.begun.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_one_thread_keeps_the_order(one: Calls) -> None:
    for number in range(2_000):
        one.submit(number)
    await one.until_ended(2_000)
    assert one.ran == list(range(2_000))


async def test_each_call_runs_once_whatever_the_number_of_threads(four: Calls) -> None:
    for start in range(0, 5_000, 50):
        for number in range(start, start + 50):
            four.submit(number)
        await asyncio.sleep(0)
    await four.until_ended(5_000)
    assert sorted(four.ran) == list(range(5_000))
    assert four.pool.capacity() >= 4


async def test_long_calls_run_side_by_side_even_after_short_ones(four: Calls) -> None:
    for number in range(100):
        four.submit(number)
    await four.until_ended(100)
    gate = threading.Event()
    notes = [four.submit(number, gate) for number in range(4)]
    for note in notes:
        await _begun(note)
    gate.set()
    await four.until_ended(104)


async def test_a_long_call_among_short_ones_holds_up_no_other(four: Calls) -> None:
    for number in range(100):
        four.submit(number)
    await four.until_ended(100)
    gate = threading.Event()
    for number in range(50):
        four.submit(number)
    long = four.submit(50, gate)
    for number in range(50):
        four.submit(number)
    await four.until_ended(200)
    assert long.begun.is_set()
    gate.set()
    await four.until_ended(201)


async def test_a_call_that_waits_can_be_withdrawn(one: Calls) -> None:
    gate = threading.Event()
    first, second, third = one.submit(1, gate), one.submit(2), one.submit(3)
    await _begun(first)
    assert one.pool.withdraw(second)
    assert not one.pool.withdraw(second)
    assert not one.pool.withdraw(first)
    gate.set()
    await one.until_ended(2)
    assert one.ran == [1, 3]
    assert not one.pool.withdraw(third)
    assert one.pool.capacity() >= 1


async def test_it_is_said_when_a_call_ended(one: Calls) -> None:
    before = time.monotonic()
    note = one.submit(1)
    await one.until_ended(1)
    assert before <= note.at <= time.monotonic()


async def test_a_pool_that_was_idle_goes_on(one: Calls) -> None:
    for number in range(3):
        one.submit(number)
        await one.until_ended(number + 1)
        # Longer than a thread stays without work.
        await asyncio.sleep(0.08)
    assert one.ran == [0, 1, 2]


async def test_calls_are_held_ahead_only_where_runs_are_short(one: Calls) -> None:
    assert one.pool.capacity() == 1
    for number in range(50):
        one.submit(number)
        await one.until_ended(number + 1)
    assert one.pool.capacity() > 1


async def test_nothing_is_held_ahead_behind_a_call_that_takes_long(one: Calls) -> None:
    for number in range(50):
        one.submit(number)
        await one.until_ended(number + 1)
    gate = threading.Event()
    await _begun(one.submit(50, gate))
    async with asyncio.timeout(LONG):
        while one.pool.capacity() > 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gate.set()
    await one.until_ended(51)


def test_a_long_run_counts_at_once_and_is_forgotten_slowly() -> None:
    ahead = LookAhead()
    assert ahead.count(8) == 0
    ahead.note(0.001)
    assert ahead.count(8) == 400
    ahead.note(1.0)
    assert ahead.count(8) == 0
    for _ in range(200):
        ahead.note(0.001)
    assert ahead.count(8) > 300


async def test_whoever_waits_for_freed_threads_is_called(one: Calls) -> None:
    freed = asyncio.Event()
    one.pool.when_freed(freed.set)
    one.submit(1)
    async with asyncio.timeout(LONG):
        await freed.wait()
    one.pool.forget(freed.set)


async def test_a_place_is_a_thread_until_it_is_left(one: Calls) -> None:
    async with ThreadPlace(one.pool) as place:
        first = await place.call(threading.get_ident)
        one.submit(1)
        assert await place.call(threading.get_ident) == first
        assert one.ran == []
    await one.until_ended(1)


async def test_a_place_that_is_not_waited_for_any_more_is_free(one: Calls) -> None:
    async with ThreadPlace(one.pool):
        waiting = asyncio.ensure_future(ThreadPlace(one.pool).__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    one.submit(1)
    await one.until_ended(1)
    assert one.ran == [1]
