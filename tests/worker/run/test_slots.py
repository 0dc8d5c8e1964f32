"""How many jobs a worker may hold."""

from __future__ import annotations

from headrace.worker.run.slots import Slots


def test_jobs_that_end_while_more_are_read_let_more_be_held() -> None:
    slots = Slots(4, 16)
    slots.learn(0.001, full=True)
    assert (slots.ahead, slots.room) == (0, 4), "nothing has run yet"
    for ahead in (4, 8, 12, 12):
        slots.learn(0.001, full=True)
        assert slots.ahead == ahead


def test_one_that_has_not_ended_stops_that() -> None:
    slots = Slots(4, 16)
    for _ in range(3):
        slots.learn(0.001, full=True)
    slots.take(2)
    slots.give()
    slots.learn(0.001, full=True)
    assert (slots.ahead, slots.room) == (0, 3)


def test_so_does_a_read_that_took_long_or_brought_less() -> None:
    for seconds, full in ((0.06, True), (0.001, False)):
        slots = Slots(4, 16)
        for _ in range(3):
            slots.learn(0.001, full=True)
        slots.learn(seconds, full=full)
        assert slots.ahead == 0


def test_without_a_bound_above_them_there_are_only_the_slots() -> None:
    slots = Slots(4)
    for _ in range(3):
        slots.learn(0.001, full=True)
    assert slots.room == 4


async def test_room_ahead_counts_as_free() -> None:
    slots = Slots(1, 3)
    slots.ahead = 2
    slots.take(2)
    await slots.wait()
    assert slots.room == 1
