"""What dies again and again is replaced ever later, and one at a time."""

from __future__ import annotations

from headrace.core.breaker import Breaker


def dies(breaker: Breaker, now: float, lived: float = 1.0, others: int = 0) -> tuple[float, float]:
    """One is started and dies; the time then, and the pause until the next may start."""
    breaker.started(now)
    return now + lived, breaker.died(now + lived, lived, others)


def opened() -> tuple[Breaker, float]:
    """A breaker after five quick deaths beside one that lives."""
    breaker, now = Breaker(), 0.0
    for _ in range(5):
        now, pause = dies(breaker, now + breaker.wait(now), others=1)
    assert pause == 300
    return breaker, now


def test_the_pause_doubles_with_each_quick_death_until_it_opens() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    for _ in range(5):
        now, pause = dies(breaker, now)
        pauses.append(pause)
        now += pause
    assert pauses == [1, 2, 4, 8, 16]
    assert breaker.state == "open"


def test_one_is_kept_going_whatever_kills_them_after_a_pause_that_grows_to_a_minute() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    for _ in range(9):
        assert breaker.wait(now) == 0
        now, pause = dies(breaker, now)
        pauses.append(pause)
        now += pause
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_those_that_die_together_are_one_failure() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.started(0.0)
    assert [breaker.died(1.0, 1.0, others) for others in (3, 2, 1, 0)] == [1, 1, 1, 1]
    for _ in range(4):
        breaker.started(2.0)
    assert [breaker.died(3.0, 1.0, others) for others in (3, 2, 1, 0)] == [300, 300, 300, 2]
    assert breaker.wait(5.0) == 0
    breaker.started(5.0)
    assert breaker.wait(6.0) == 59


def test_when_the_last_one_dies_the_next_need_not_wait_for_five_minutes() -> None:
    breaker, now = opened()
    assert breaker.died(now + 10, lived=1000.0) == 1
    assert breaker.wait(now + 11) == 0


def test_one_that_lived_for_a_minute_is_replaced_soon() -> None:
    breaker = Breaker()
    now, _ = dies(breaker, 0.0)
    now, _ = dies(breaker, now)
    now, pause = dies(breaker, now, lived=60.0)
    assert pause == 1
    assert dies(breaker, now)[1] == 1
    assert breaker.deaths == 4


def test_deaths_of_others_do_not_count_again_once_the_latest_has_lived() -> None:
    breaker = Breaker()
    now, _ = dies(breaker, 0.0)
    breaker.started(now)
    assert not breaker.survived(now + 59)
    assert breaker.survived(now + 60)
    assert dies(breaker, now + 60)[1] == 1


def test_beside_others_nothing_is_started_for_five_minutes() -> None:
    breaker, now = opened()
    assert breaker.state == "open"
    assert breaker.wait(now + 299) == 1
    assert breaker.wait(now + 300) == 0


def test_one_probe_has_to_live_for_a_minute_before_others_may_start() -> None:
    breaker, now = opened()
    now += 300
    breaker.started(now)
    assert breaker.wait(now + 20) == 40
    assert breaker.wait(now + 60) == 0
    assert breaker.state == "closed"


def test_a_probe_that_dies_opens_it_for_another_five_minutes() -> None:
    breaker, now = opened()
    now, pause = dies(breaker, now + 300, others=1)
    assert (pause, breaker.state) == (300, "open")
    assert breaker.wait(now + 100) == 200


def test_an_old_one_that_dies_beside_the_probe_says_nothing_about_it() -> None:
    breaker, now = opened()
    breaker.started(now + 300)
    breaker.died(now + 310, lived=1000.0, others=1)
    assert breaker.state == "half_open"
    assert breaker.wait(now + 360) == 0


def test_one_that_dies_while_it_is_open_does_not_make_it_longer() -> None:
    breaker, now = opened()
    assert breaker.died(now + 10, lived=5.0, others=1) == 290
