"""How many consumers there should be: what calls for more or fewer, and when that is heeded."""

from __future__ import annotations

import pytest

from headrace.core.scaling.scaler import Scaler, ScalingDecision
from headrace.core.scaling.scaling import Scaling, read_range
from headrace.core.scaling.snapshot import Load
from headrace.errors import ConfigError


class Scene:
    """A scaler, a clock that the test moves, and consumers that are at once as many as decided."""

    def __init__(self, least: int = 1, most: int = 8, each: int = 10, **settings: float) -> None:
        self.scaler = Scaler(Scaling(least, most, **settings))
        self.each = each
        self.now = 1000.0

    def look(
        self,
        backlog: float = 0,
        *,
        after: float = 0.0,
        age: float | None = None,
        running: float = 0,
        active: int | None = None,
        elsewhere: int = 0,
    ) -> ScalingDecision:
        self.now += after
        active = self.scaler.target if active is None else active
        load = Load(backlog, age, running, active, self.each, elsewhere)
        return self.scaler.decide(self.now, load)

    def called_for(self, backlog: float = 0, **seen: float | None) -> int:
        """The number once it has been called for long enough."""
        self.look(backlog, after=100.0, **seen)  # type: ignore[arg-type]
        return self.look(backlog, after=100.0, **seen).target  # type: ignore[arg-type]


def test_more_are_called_for_above_twice_what_they_can_hold() -> None:
    assert Scene().called_for(20) == 1
    assert Scene().called_for(21) == 2


def test_it_goes_straight_to_the_number_that_the_backlog_calls_for() -> None:
    assert Scene().called_for(95) == 5


def test_there_are_never_more_than_the_most_nor_fewer_than_the_least() -> None:
    scene = Scene(2, 4)
    assert scene.scaler.target == 2
    assert scene.called_for(10_000) == 4
    assert scene.called_for(0) == 2


def test_fewer_are_called_for_below_half_of_what_they_can_hold() -> None:
    scene = Scene()
    assert scene.called_for(95) == 5
    assert scene.called_for(25) == 5
    assert scene.called_for(24) == 3
    assert scene.called_for(0) == 1


def test_those_that_stay_have_room_for_what_runs() -> None:
    scene = Scene()
    assert scene.called_for(95) == 5
    assert scene.called_for(3, running=50) == 5
    assert scene.called_for(3, running=31) == 4


def test_capacity_is_that_of_consumers_that_live() -> None:
    scene = Scene()
    assert scene.called_for(95) == 5
    # One of five lives: the others come back by themselves, and no more than five are needed.
    assert scene.called_for(95, active=1) == 5
    assert scene.called_for(120, active=1) == 6


def test_consumers_that_hold_one_at_a_time_count_as_one_place_each() -> None:
    assert Scene(each=1).called_for(6) == 3


def test_dead_consumers_do_not_keep_the_number_up_once_all_is_quiet() -> None:
    scene = Scene()
    assert scene.called_for(95) == 5
    assert scene.called_for(0, active=0) == 1


def test_one_more_is_called_for_when_all_are_busy_and_something_waits_too_long() -> None:
    assert Scene().called_for(3, running=10, age=61) == 2
    assert Scene().called_for(3, running=10, age=59) == 1
    assert Scene(age=5).called_for(3, running=10, age=6) == 2


def test_an_old_event_that_waits_for_something_else_calls_for_nothing() -> None:
    assert Scene().called_for(0, running=10, age=9999) == 1
    assert Scene().called_for(3, running=1, age=9999) == 1


def test_what_is_called_for_has_to_hold_for_a_while() -> None:
    scene = Scene(hysteresis=10)
    assert scene.look(100).target == 1
    assert scene.look(100, after=9.9).target == 1
    assert scene.look(10, after=0.05).target == 1
    assert scene.look(100, after=0.05).target == 1
    assert scene.look(100, after=9.9).target == 1
    assert scene.look(100, after=0.1).target == 5


def test_a_dip_is_forgotten_but_the_most_that_was_needed_in_it_is_kept() -> None:
    scene = Scene(cooldown=0)
    assert scene.called_for(95) == 5
    scene.look(0, after=5, running=5)
    scene.look(0, after=5, running=25)
    assert scene.look(0, after=5).target == 3


def test_nothing_is_changed_for_a_while_after_a_change() -> None:
    scene = Scene(hysteresis=0, cooldown=30)
    assert scene.look(40).target == 2
    assert scene.look(100, after=29.9).target == 2
    assert scene.look(100, after=0.2).target == 5


def test_after_a_time_without_sight_all_has_to_be_called_for_anew() -> None:
    scene = Scene(hysteresis=10)
    scene.look(100)
    scene.scaler.blind()
    assert scene.look(100, after=60).target == 1
    assert scene.look(100, after=10).target == 5


def test_the_source_that_is_furthest_behind_decides() -> None:
    scaler = Scaler(Scaling(1, 8, hysteresis=0, cooldown=0))
    idle = Load(0, None, 0, 1, 100, of="default")
    behind = Load(7, None, 1, 1, 1, of="billing@orders")
    decision = scaler.decide(0.0, idle, behind)
    assert decision.target == 4
    assert "7 billing@orders wait" in decision.why
    busy = Load(0, None, 3, 4, 1)
    assert scaler.decide(1.0, idle._replace(active=4), busy).target == 3


def test_nothing_to_serve_calls_for_nobody() -> None:
    assert Scaler(Scaling(2, 8)).decide(0.0) == ScalingDecision(2)


def test_slots_that_others_have_take_their_share() -> None:
    assert Scene().called_for(39, elsewhere=10) == 1
    assert Scene().called_for(100, elsewhere=10) == 3
    assert Scene().called_for(100, elsewhere=0) == 5


def test_a_decision_says_why_and_is_counted_by_its_reason() -> None:
    scene = Scene(hysteresis=0, cooldown=0)
    assert scene.look(15) == ScalingDecision(1)
    up = scene.look(95, age=12.34, running=10)
    assert (up.target, up.reason) == (5, "backlog")
    assert up.why == (
        "1 -> 5 (backlog: 95 jobs wait, the oldest for 12 s; 10 run; 1 consumers x 10 = 10 slots)"
    )
    assert scene.look(0).reason == "idle"
    scene.look(3, running=10, age=100)
    assert (dict(scene.scaler.ups), dict(scene.scaler.downs)) == (
        {"backlog": 1, "age": 1},
        {"idle": 1},
    )


def test_of_nothing_that_waits_no_age_is_said() -> None:
    """The oldest was taken after its age was read."""
    assert str(Load(0, 0.7, 1, 3, 1)) == "0 jobs wait; 1 run; 3 consumers x 1 = 3 slots"


# Settings


def test_settings_come_from_variables_and_blank_ones_are_the_default() -> None:
    given = {
        "HEADRACE_SCALE_POLL": "0.5",
        "HEADRACE_SCALE_UP": "3",
        "HEADRACE_SCALE_DOWN": " ",
        "HEADRACE_SCALE_AGE": "20",
        "HEADRACE_SCALE_COOLDOWN": "0",
    }
    scaling = Scaling.of(1, 4, given)
    assert scaling == Scaling(1, 4, poll=0.5, up=3.0, age=20.0, cooldown=0.0)
    assert (scaling.down, scaling.hysteresis) == (0.5, 10.0)
    assert Scaling.of(1, 4, {}) == Scaling(1, 4)


@pytest.mark.parametrize("name", ["POLL", "UP", "DOWN", "AGE", "HYSTERESIS", "COOLDOWN"])
@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e300"])
def test_a_wrong_setting_is_refused_by_the_name_of_its_variable(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"HEADRACE_SCALE_{name}"):
        Scaling.of(1, 4, {f"HEADRACE_SCALE_{name}": text})


def test_what_would_go_up_and_down_at_once_is_refused() -> None:
    with pytest.raises(ConfigError, match="HEADRACE_SCALE_DOWN must be less"):
        Scaling.of(1, 4, {"HEADRACE_SCALE_DOWN": "2"})
    with pytest.raises(ConfigError, match="HEADRACE_SCALE_UP"):
        Scaling(1, 4, up=0)


@pytest.mark.parametrize("numbers", [(0, 3), (4, 2), (1, 0)])
def test_numbers_that_cannot_be_are_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=r"number of consumers|smaller number first"):
        Scaling(*numbers)


def test_variables_change_how_eagerly_it_scales() -> None:
    variables = {"HEADRACE_SCALE_UP": "3", "HEADRACE_SCALE_AGE": " ", "HEADRACE_SCALE_POLL": "1"}
    scaling = Scaling.of(1, 8, variables)
    assert (scaling.up, scaling.age, scaling.poll, scaling.fixed) == (3.0, 60.0, 1.0, False)
    with pytest.raises(ConfigError, match="HEADRACE_SCALE_UP='fast' is not a number"):
        Scaling.of(1, 8, {"HEADRACE_SCALE_UP": "fast"})


def test_a_range_is_a_number_or_two() -> None:
    assert [read_range(text) for text in ("4", "1..8")] == [(4, 4), (1, 8)]
    for odd in ("", "0", "8..1", "1..2..3", "few"):
        with pytest.raises(ValueError):
            read_range(odd)
