"""A strategy of the app's own: what it is told, and what becomes of its answer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace import Headrace, ScalingSnapshot, scale_by_load
from headrace.core.scaling.scaler import Scaler
from headrace.core.scaling.scaling import Scaling
from headrace.core.scaling.snapshot import Load
from headrace.errors import ConfigError

AT_ONCE = Scaling(1, 8, hysteresis=0, cooldown=0)
BUSY = Load(30, 4.0, 10, 1, 10)


def test_a_strategy_decides_within_the_bounds() -> None:
    def wants(number: int) -> int:
        return Scaler(AT_ONCE, lambda _: number).decide(0.0, BUSY).target

    assert [wants(3), wants(100), wants(-1)] == [3, 8, 1]


def test_a_strategy_is_told_what_waits_and_how_many_there_are() -> None:
    told: list[ScalingSnapshot] = []

    def strategy(snapshot: ScalingSnapshot) -> int:
        told.append(snapshot)
        return 2

    scaler = Scaler(AT_ONCE, strategy, name="billing@orders")
    shared = Load(40, 9.0, 20, 1, 10, elsewhere=10)
    scaler.decide(0.0, BUSY, shared)
    (snapshot,) = told
    assert (snapshot.name, snapshot.target, snapshot.active) == ("billing@orders", 1, 1)
    assert (snapshot.backlog, snapshot.running, snapshot.oldest_age) == (50, 20, 9.0)
    assert snapshot.scaling.most == 8
    assert snapshot.now.tzinfo is UTC


def test_a_strategy_can_build_on_the_built_in_one() -> None:
    def at_least_three_in_the_morning(snapshot: ScalingSnapshot) -> int:
        return max(scale_by_load(snapshot), 3 if snapshot.now.hour < 12 else 1)

    snapshot = ScalingSnapshot("jobs", (BUSY,), 1, datetime(2030, 1, 1, 9, tzinfo=UTC), AT_ONCE)
    assert at_least_three_in_the_morning(snapshot) == 3
    evening = snapshot._replace(now=datetime(2030, 1, 1, 20, tzinfo=UTC))
    assert at_least_three_in_the_morning(evening) == 2


def test_what_a_strategy_wants_must_be_wanted_for_long_enough() -> None:
    scaler = Scaler(Scaling(1, 8, hysteresis=10, cooldown=0), lambda _: 5)
    assert scaler.decide(0.0, BUSY).target == 1
    decision = scaler.decide(10.0, BUSY)
    assert (decision.target, decision.reason) == (5, "strategy")
    assert "1 -> 5 (strategy: 30 jobs wait" in decision.why
    assert scaler.ups == {"strategy": 1}


def test_a_strategy_that_does_not_know_changes_nothing() -> None:
    answers = iter([7, None, 2])
    scaler = Scaler(AT_ONCE, lambda _: next(answers))
    assert [scaler.decide(float(now), BUSY).target for now in range(3)] == [7, 7, 2]


def test_an_app_has_one_strategy_which_is_a_plain_function() -> None:
    app = Headrace("memory://")

    async def late(_: ScalingSnapshot) -> int:
        return 1

    with pytest.raises(ConfigError, match="goes on a plain function"):
        app.scaling(late)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="not on 3"):
        app.scaling(3)  # type: ignore[type-var]
    assert app.scaling(scale_by_load) is scale_by_load
    with pytest.raises(ConfigError, match="it can have one"):
        app.scaling(scale_by_load)
