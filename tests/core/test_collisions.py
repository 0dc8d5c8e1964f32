"""Keys that all hash alike are refused before anyone hashes them."""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field, create_model

from headrace.core import codec
from headrace.core.collisions import MOST_ALIKE, Collision, _Items
from headrace.core.misfit import Misfit
from headrace.core.payload.codecs import readable
from headrace.core.payload.content import codec_for
from headrace.core.task.signature import Signature

pack = msgspec.msgpack.encode
MANY = 20_000
# All of them are zero to `hash`.
ZEROS = [number * (2**61 - 1) for number in range(1, 2001)]


def tuples(count: int = MANY, width: int = 16) -> list[tuple[int, ...]]:
    return list(itertools.islice(itertools.product((-1, -2), repeat=width), count))


def mapped(keys: list[Any]) -> bytes:
    """A MessagePack map with these keys, which are encoded as they are."""
    return b"\xdf" + struct.pack(">I", len(keys)) + b"".join(pack(key) + b"\0" for key in keys)


EVIL = mapped(tuples())
PLACES: dict[str, bytes] = {
    "alone": EVIL,
    "an argument": b"\x91" + EVIL,
    "in a map": b"\x81\xa1a" + EVIL,
    "in a large map": b"\xde\x00\x01\x01" + EVIL,
    "under a key that comes twice": b"\x82\x01" + EVIL + b"\x01\xc0",
    "in the middle": b"\x93\x01" + EVIL + b"\x02",
    "before half a value": b"\x92" + EVIL + b"\xda\xff",
    "with other keys first": mapped([*range(100), *tuples()]),
    "nested keys": mapped([[[each]] for each in tuples(2000)]),
}


@pytest.mark.parametrize("where", PLACES)
def test_array_keys_that_collide_are_refused(where: str) -> None:
    for kind in (Any, dict[Any, Any], list[Any], dict[str, Any]):
        with pytest.raises(codec.DECODE_ERRORS):
            codec.decoder(kind)(PLACES[where])


def test_the_refusal_says_why() -> None:
    with pytest.raises(Collision, match="more than 64 keys of one map or set have the same hash"):
        codec.decoder(Any)(EVIL)


Corner: Any = make_dataclass("Corner", [(name, int) for name in "abcdefgh"], frozen=True)


CORNERS = [dict(zip("abcdefgh", each, strict=True)) for each in tuples(256, 8)]
# What no field takes makes no difference to the record that is hashed.
JUNK = [{**each, "junk": f"{n}"} for n, each in enumerate(CORNERS)]
FULL_WIDTH = {ord("0") + n: ord("\uff10") + n for n in range(10)}


@dataclass(frozen=True)
class Noted(Corner):  # type: ignore[misc]
    note: str = field(default="", hash=False, compare=False)


LARGE: dict[str, tuple[Any, Any]] = {
    "text": ({f"key {n}": n for n in range(3000)}, Any),
    "numbers": ({n: n for n in range(-3000, 3000)}, Any),
    "places": ({(x, y): x for x in range(-40, 40) for y in range(-40, 40)}, Any),
    "typed places": ({(x, y): 1 for x in range(-40, 40) for y in range(-40, 40)},
                     dict[tuple[int, int], int]),
    "sets of texts": ({(f"{x}", f"{y}") for x in range(40) for y in range(40)},
                      set[tuple[str, str]]),
    "sets": ({(x, y) for x in range(-40, 40) for y in range(-40, 40)}, set[tuple[int, int]]),
    "ids": ({UUID(int=n) for n in range(2000)}, set[UUID]),
    "decimals": ({Decimal(n) / 7 for n in range(2000)}, set[Decimal]),
    "records": ([{"x": x, "y": -1} for x in range(500)] * 2, list[dict[str, int]]),
    "equal lists": ([[-1, -2, -1, -2]] * 2000, list[list[int]]),
    "bytes": ([bytes(range(256)) * 40], list[bytes]),
    "nested": ([{"a": [{"b": {str(n): n for n in range(300)}}]}] * 10, Any),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_what_people_send_is_decoded_whatever_its_size(name: str) -> None:
    value, kind = LARGE[name]
    assert codec.decoder(kind)(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (set[tuple[int, ...]], tuples(2000)),
        (set[Any], tuples(2000)),
        (frozenset[Decimal], [str(number) for number in ZEROS]),
        (set[UUID], [str(UUID(int=number)) for number in ZEROS]),
        (set[Corner], [dict(zip("abcdefgh", each, strict=True)) for each in tuples(256, 8)]),
        (set[Decimal], [f" {number:_} " for number in ZEROS]),
        (set[Decimal], [str(number).translate(FULL_WIDTH) for number in ZEROS]),
        (set[Decimal], [str(number).zfill(500) for number in ZEROS]),
        (set[tuple[str, tuple[int, ...]]], [("x", each) for each in tuples(2000)]),
        (set[Corner], JUNK),
        (set[Noted], [{**each, "note": str(n)} for n, each in enumerate(CORNERS)]),
    ],
)
def test_items_of_sets_that_collide_are_refused(kind: Any, items: list[Any]) -> None:
    for data, decoder in (
        (json.dumps(items).encode(), codec.json_decoder),
        (pack(items), codec.decoder),
    ):
        with pytest.raises(codec.DECODE_ERRORS):
            decoder(kind)(data)


class Point(BaseModel, frozen=True):
    a: int
    b: int
    c: int = Field(validation_alias="third")
    d: int
    e: int
    f: int
    g: int
    h: int


class Tree(BaseModel):
    numbers: set[int] = set()
    children: list[Tree] = []


def model_of(kind: Any) -> Any:
    return create_model("Holder", items=(kind, ...))


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (set[int], list(map(str, ZEROS))),
        (frozenset[int | None], [f" {number:_}" for number in ZEROS]),
        (set[Decimal], list(map(str, ZEROS))),
        (set[Fraction], [f"{number}/{3}" for number in ZEROS]),
        (set[complex], [f"{1000003 * number}-{number}j" for number in range(1, 2000)]),
        (set[UUID], [f"urn:uuid:{UUID(int=number)}" for number in ZEROS]),
        (set[UUID], [f"{{{UUID(int=number)}}}" for number in ZEROS]),
        (frozenset[tuple[int, ...]], tuples(2000)),
        (dict[int, str], {str(number): "" for number in ZEROS}),
        (dict[str, list[set[int]]], {"a": [[], list(map(str, ZEROS))]}),
        (set[Point], [{**each, "junk": n} for n, each in enumerate(CORNERS)]),
        (set[Point], [{**each, "third": each["c"], "c": 0} for each in CORNERS]),
        (Tree, {"children": [{"children": [{"numbers": list(map(str, ZEROS))}]}]}),
    ],
)
def test_items_of_sets_in_models_that_collide_are_refused(kind: Any, items: Any) -> None:
    model, value = model_of(kind), {"items": items}
    with pytest.raises(codec.DECODE_ERRORS, match="same hash"):
        codec.decoder(model)(pack(value))
    with pytest.raises(codec.DECODE_ERRORS, match="same hash"):
        codec.json_decoder(model)(json.dumps(value).encode())
    with pytest.raises(codec.DECODE_ERRORS, match="same hash"):
        codec.convert(json.loads(json.dumps(value)), model)


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (set[int], list(range(-3000, 3000))),
        (set[str], list(map(str, ZEROS))),
        (set[tuple[str, str]], [[f"{n}", "x"] for n in range(2000)]),
        (list[list[int]], tuples(2000)),
        (dict[int, list[Any]], {"1": [{"a": n} for n in range(2000)]}),
        (list[Point], [{**each, "third": 0} for each in CORNERS]),
        (
            set[Point],
            [dict(zip("abcdefgh", (n, -1) * 4, strict=True), third=0) for n in range(500)],
        ),
    ],
)
def test_models_of_any_size_are_decoded(kind: Any, items: Any) -> None:
    model = model_of(kind)
    assert codec.decoder(model)(pack({"items": items})) == model(items=items)
    text = json.dumps({"items": items})
    assert codec.json_decoder(model)(text.encode()) == model.model_validate_json(text)


def test_what_is_nested_is_read_once_and_not_at_each_level() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [*range(MOST_ALIKE + 1), value]
    looked = Looked(frozenset())
    looked.check(value)
    assert looked.count < 3 * 200 * MOST_ALIKE


class Looked(_Items):
    count = 0

    def _hash_of(self, item: Any) -> int:
        self.count += 1
        return super()._hash_of(item)


def test_long_numbers_that_collide_are_refused_in_json() -> None:
    for kind, value in (
        (set[int], ZEROS),
        (dict[int, int], {str(n): 1 for n in ZEROS}),
        (dict[Decimal, int], {str(n): 1 for n in ZEROS}),
    ):
        with pytest.raises(Collision):
            codec.json_decoder(kind)(json.dumps(value).encode())
    assert len(codec.json_decoder(Any)(json.dumps({str(n): 1 for n in ZEROS}).encode())) == 2000


def test_arguments_that_collide_are_a_misfit() -> None:
    def task(data: dict[Any, Any], *more: Any) -> None: ...

    def typed(places: dict[tuple[int, ...], int]) -> None: ...

    def modelled(tree: Tree) -> None: ...

    for function, payload in (
        (task, b"\x92\x91" + EVIL + b"\x80"),
        (typed, b"\x91" + EVIL),
        (modelled, pack({"tree": {"numbers": list(map(str, ZEROS))}})),
    ):
        with pytest.raises(Misfit, match="same hash"):
            Signature(function, "task", type(None)).decode(payload)


def test_an_event_that_collides_is_not_decoded_nor_shown() -> None:
    with pytest.raises(Collision):
        codec_for("msgpack", dict[Any, Any]).decode(EVIL)
    assert readable("", EVIL) == EVIL


def test_endless_nesting_around_it_is_refused() -> None:
    with pytest.raises(codec.DECODE_ERRORS):
        codec.decoder(Any)(b"\x92\x01" * 300 + b"\x91" + EVIL)


def test_documents_may_be_nested_as_pages_and_trees_of_syntax_are() -> None:
    document: Any = {"numbers": [dict.fromkeys(map(str, range(20)), 0.5) for _ in range(100)]}
    for _ in range(100):
        document = {"kind": "part", "children": [document]}
    assert codec.decoder(Any)(pack(document)) == document
    assert codec.decoder(dict[str, Any])(pack(document)) == document


def test_a_large_document_is_not_read_again_for_each_of_many_levels() -> None:
    value: Any = dict.fromkeys(map(str, range(20)), bytes(2_000_000))
    for _ in range(100):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply for its size"):
        codec.decoder(Any)(pack(value))


def test_types_that_cannot_collide_are_decoded_without_a_look() -> None:
    for kind in (int, dict[str, int], list[dict[int, str]], tuple[str, bytes], set[str]):
        assert "checked" not in codec.decoder(kind).__name__
