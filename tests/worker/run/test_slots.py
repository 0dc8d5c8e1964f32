"""How many jobs a worker may hold."""

from __future__ import annotations

import asyncio

from headrace.worker.run.slots import Slots

EVIDENCE = 32


def reading_ahead(most: int = 16) -> Slots:
    slots = Slots(4, most)
    slots.learn(0.001, asked=EVIDENCE, came=EVIDENCE)
    slots.learn(0.001, asked=2, came=2)
    assert slots.ahead == (4 if most else 0)
    return slots


def test_jobs_that_end_while_more_are_read_let_more_be_held() -> None:
    slots = Slots(4, 16)
    for _ in range(EVIDENCE // 2):
        slots.learn(0.001, asked=2, came=2)
        assert (slots.ahead, slots.room) == (0, 4), "too few have run yet"
    for ahead in (4, 8, 12, 12):
        slots.learn(0.001, asked=2, came=2)
        assert slots.ahead == ahead


def test_one_that_has_not_ended_stops_that() -> None:
    slots = reading_ahead()
    slots.take(2)
    slots.give()
    slots.learn(0.001, asked=2, came=2)
    assert (slots.ahead, slots.room) == (0, 3)
    slots.give()
    slots.learn(0.001, asked=2, came=2)
    assert slots.ahead == 0, "they show it again first"


def test_so_does_a_read_that_took_long_or_brought_less_than_half() -> None:
    for seconds, came in ((0.06, 4), (0.001, 1)):
        slots = reading_ahead()
        slots.learn(seconds, asked=4, came=came)
        assert slots.ahead == 0


def test_a_read_that_brought_half_counts_as_full() -> None:
    slots = reading_ahead()
    slots.learn(0.001, asked=4, came=2)
    assert slots.ahead == 8


def test_runs_in_threads_take_no_more_slots_than_there_are_threads() -> None:
    slots = Slots(4, threads=2)
    taken = []
    for _ in range(4):
        slots.take(1)
        slots.enter_thread()
        taken.append((slots.free, slots.room))
    assert taken == [(3, 3), (2, 2), (2, 1), (2, 0)], "those that wait for a thread are held too"
    for _ in range(4):
        slots.leave_thread()
        taken.append((slots.free, slots.room))
    assert taken[4:] == [(2, 1), (2, 2), (3, 3), (4, 4)]


def test_nothing_is_read_for_little_room_while_many_wait_for_threads() -> None:
    slots = Slots(10, threads=1)
    room = []
    for _ in range(11):
        slots.take(1)
        slots.enter_thread()
        room.append(slots.room)
    assert room == [9, 8, 7, 6, 5, 4, 3, 0, 0, 0, -1]
    for _ in range(4):
        slots.leave_thread()
    assert slots.room == 3


async def test_the_reader_is_woken_when_there_is_room_for_a_few() -> None:
    slots = Slots(10, threads=1)
    for _ in range(10):
        slots.take(1)
        slots.enter_thread()
    waiting = asyncio.create_task(slots.wait())
    for _ in range(2):
        slots.leave_thread()
        await asyncio.sleep(0)
        assert not waiting.done()
    slots.leave_thread()
    await waiting


def test_runs_in_threads_do_not_stop_reading_ahead() -> None:
    slots = Slots(4, 16, threads=2)
    for _ in range(3):
        slots.take(1)
        slots.enter_thread()
    slots.learn(0.001, asked=EVIDENCE, came=EVIDENCE)
    slots.learn(0.001, asked=2, came=2)
    assert (slots.ahead, slots.room) == (4, 5)
    slots.take(1)
    slots.learn(0.001, asked=2, came=2)
    assert slots.ahead == 0, "one on the loop has not ended"


def test_without_a_bound_above_them_there_are_only_the_slots() -> None:
    assert reading_ahead(most=0).room == 4


async def test_room_ahead_counts_as_free() -> None:
    slots = Slots(1, 3)
    slots.ahead = 2
    slots.take(2)
    await slots.wait()
    assert slots.room == 1
