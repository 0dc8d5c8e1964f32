"""A scaling strategy that fails, or answers with nonsense, does no harm."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Load, ScalingSnapshot
from headrace.core.scaling.scaling import Scaling
from headrace.worker.upkeep.own_strategy import OwnStrategy

SNAPSHOT = ScalingSnapshot(
    "worker processes", (Load(30, 4.0, 10, 1, 10),), 1, datetime.now(UTC), Scaling(1, 8)
)


@pytest.mark.parametrize("answer", [None, 2.5, True, "3"])
def test_an_answer_that_is_no_number_is_none(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert OwnStrategy(lambda _: answer)(SNAPSHOT) is None
    assert f"returns a whole number, not {answer!r}" in caplog.text


def test_a_failure_is_logged_once_until_it_answers_again(caplog: pytest.LogCaptureFixture) -> None:
    answers: Iterator[int | KeyError] = iter(
        [7, KeyError("a"), KeyError("a"), 2, KeyError("a"), KeyError("b")]
    )

    def strategy(_: ScalingSnapshot) -> int:
        answer = next(answers)
        if isinstance(answer, KeyError):
            raise answer
        return answer

    own = OwnStrategy(strategy)
    assert [own(SNAPSHOT) for _ in range(6)] == [7, None, None, 2, None, None]
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(said) == 3
    assert said[0] == (
        "the scaling strategy failed; the number of worker processes stays as it is: KeyError('a')"
    )
