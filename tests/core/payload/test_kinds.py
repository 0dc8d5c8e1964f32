"""What a type says of its values, and which part of a value cannot travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, TypedDict

import msgspec
import pydantic
import pytest

from headrace.core import codec
from headrace.core.payload.kinds import culprit, kinds_of, named

Id = NewType("Id", str)


class Where(TypedDict):
    city: str


class Point(msgspec.Struct):
    x: Any
    y: Any = 0


@dataclass
class Path:
    points: list[Point]
    names: dict[str, Any]


class Model(pydantic.BaseModel, arbitrary_types_allowed=True):
    at: Any


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        (Point, (Point,)),
        (int, (int,)),
        (float, (float, int)),
        (Point | Path, (Point, Path)),
        (Point | None, (Point, type(None))),
        (Point | Any, ()),
        (list[int], (list,)),
        (Annotated[int, {"unhashable": []}], (int,)),
        (Any, ()),
        (Where, ()),
        (Id, ()),
        (Literal["a"], ()),
        (None, (type(None),)),
    ],
)
def test_a_type_names_the_classes_of_its_values(kind: Any, kinds: tuple[type, ...]) -> None:
    assert kinds_of(kind) == kinds


def test_a_type_is_named_as_people_write_it() -> None:
    assert named(Point) == "Point"
    assert named(int) == "int"
    assert named(list[int]) == "list[int]"
    assert named(Any) == "Any"
    assert named(int | None) == "int | None"


def test_the_innermost_part_that_cannot_travel_is_named() -> None:
    event = Path([Point(1), Point(2, y={"a": 1j})], {})
    assert _way(event) == "points[1].y['a']"
    assert _way(Path([], {"b": {2j}})) == "names['b'][0]"
    assert _way(Model(at=[1j])) == "at[0]"
    assert _way(1j) == ""
    assert _way({1j: 1}) == ""


def test_nothing_is_blamed_where_nothing_is_wrong() -> None:
    assert culprit(Point(1), codec.encode) is None


def test_a_value_that_holds_itself_has_no_innermost_part() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert _way(ring).startswith("[0][0]")


def _way(value: Any) -> str:
    found = culprit(value, codec.encode)
    assert found is not None
    return found[0]
