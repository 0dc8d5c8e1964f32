"""What one step returns, and what the next one takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest

from headrace import ArgumentError, Headrace, Job, chain, group
from headrace.core.flow.fitting import can_fit
from headrace.core.flow.flow import plan


@dataclass
class Point:
    x: int


class Place(TypedDict):
    x: int


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (int, int), (int, float), (int, Any), (Any, list[int]), (None, int | None),
        (list[int], list[int]), (list[int], Sequence[float]), (tuple[int, ...], list[int]),
        (list, list[str]), (set[int], list[int]), (int | str, str), (str, UUID), (datetime, str),
        (Point, dict[str, int]), (dict[str, int], Point), (Place, Point),
        (Annotated[int, "a"], Annotated[int, "b"]), (tuple[int, str], list[int]),
        (list[int | None], list[int]),
    ],
)  # fmt: skip
def test_what_may_fit(given: Any, taken: Any) -> None:
    assert can_fit(given, taken)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (int, list[int]), (int, str), (str, bytes), (type(None), int), (list[int], int),
        (list[int], list[str]), (Point, list[int]), (int | None, str), (dict[str, int], list[int]),
        (Annotated[int, "a"], str), (list[list[int]], list[int]),
    ],
)  # fmt: skip
def test_what_cannot_fit(given: Any, taken: Any) -> None:
    assert not can_fit(given, taken)


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


def test_a_step_that_cannot_take_what_it_is_given_is_refused_when_it_is_sent(
    app: Headrace,
) -> None:
    @app.task
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task
    async def show(number: int | None) -> str:
        return str(number)

    @app.task
    async def untyped(number):  # type: ignore[no-untyped-def]
        return number

    words = "its first argument is list\\[int\\], and the result of 'add' is int"
    with pytest.raises(ArgumentError, match=words):
        plan(chain(add.call(1), total.call()))
    with pytest.raises(ArgumentError, match="the list of results of 'show' is list\\[str\\]"):
        plan(group([show.call(1), show.call(2)]).then(total.call()))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'show'"):
        plan(show.call().after(add.call(1), add.call(2)))
    plan(group([add.call(1), add.call(2)]).then(total.call()))
    plan(chain(add.call(1), show.call()))
    plan(chain(add.call(1), add.call(2)))
    plan(total.call().after(add.call(1), untyped.call(2), if_failed="run"))
    plan(chain(untyped.call(1), total.call()))
    plan(total.call().after(Job(app, b"=sent", "default")))
    plan(chain(add.call(1), total.call([1])))
