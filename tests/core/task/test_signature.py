"""Arguments of every supported type and shape, there and back; what cannot travel, by name."""

# Without `from __future__ import annotations`: functions here are annotated with local values.

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import codec
from headrace.core.codec import with_first
from headrace.core.misfit import Misfit
from headrace.core.task.signature import Signature
from headrace.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from decimal import Context as Elsewhere


class Context:
    """Stands for what a worker fills in."""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 10


class Mode(StrEnum):
    FAST = "fast"


@dataclass
class Line:
    article: str
    price: Decimal
    tags: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Order:
    id: uuid.UUID
    paid: datetime
    lines: list[Line]
    colour: Colour = Colour.RED


class Point(msgspec.Struct):
    x: float
    y: float = 0.0
    label: str | None = None


class Address(pydantic.BaseModel):
    street: str
    zip: int


class Customer(pydantic.BaseModel):
    name: str
    born: date
    key: uuid.UUID
    balance: Decimal
    photo: bytes
    tags: set[str]
    address: Address | None = None


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    kind: str = pydantic.Field(alias="type")


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    width: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width**2


class Row(TypedDict):
    id: int
    name: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


KEY = uuid.UUID(int=7)
NOON = datetime(2030, 6, 1, 12, 30, 15, 123456, tzinfo=UTC)
LINE = Line("a-1", Decimal("9.95"), {"new"})
ORDER = Order(KEY, NOON, [LINE, Line("b", Decimal(1))], Colour.BLUE)
CUSTOMER = Customer(
    name="Ada", born=date(1815, 12, 10), key=KEY, balance=Decimal("1.10"), photo=b"\xff\x00",
    tags={"a", "b"}, address=Address(street="St", zip=1),
)  # fmt: skip

# (type, value): each arrives as what it was.
VALUES: list[tuple[Any, Any]] = [
    *((int, number) for number in (0, -1, 2**53 + 1, -(2**63), 2**64 - 1)),
    *((float, number) for number in (0.1, -0.0, 1e308, 5e-324, float("inf"), float("-inf"))),
    *(
        (str, text)
        for text in ("", "a", "naïve", "日本", "👩🏽‍🚀", "\x00\n", "\u202e", "\U0010ffff")
    ),
    *((bytes, data) for data in (b"", b"\x00\xff", b"x" * 70_000)),
    *((bool, flag) for flag in (True, False)),
    (bytearray, bytearray(b"\x00\xff")),
    (None, None),
    (list[int], [1, 2]),
    (list[Order], [ORDER]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (set[uuid.UUID], {KEY}),
    (dict[str, int], {"a": 1}),
    (dict[int, str], {1: "a", -5: "b"}),
    (dict[uuid.UUID, Point], {KEY: Point(1.0)}),
    (dict[tuple[int, int], str], {(1, 2): "a"}),
    (dict[str, list[dict[str, set[int]]]], {"a": [{"b": {1}}]}),
    (datetime, NOON),
    (datetime, NOON.replace(tzinfo=None)),
    (datetime, NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))),
    (datetime, datetime(1900, 1, 1, tzinfo=UTC)),
    (date, date(2030, 2, 28)),
    (time, time(23, 59, 59, 999999)),
    (time, time(12, tzinfo=UTC)),
    (timedelta, timedelta(days=-3, seconds=5, microseconds=7)),
    (timedelta, timedelta(0)),
    (uuid.UUID, KEY),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("-1E+30")),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Mode, Mode.FAST),
    (Line, LINE),
    (Order, ORDER),
    (Point, Point(1.5, label="x")),
    (Customer, CUSTOMER),
    (list[Customer], [CUSTOMER]),
    (Customer | None, CUSTOMER),
    (Customer | None, None),
    (Aliased, Aliased(type="x")),
    (Computed, Computed(width=3)),
    (Row, {"id": 1, "name": "a"}),
    (Pair, Pair(1)),
    (Optional[int], None),  # noqa: UP045
    (Optional[datetime], NOON),  # noqa: UP045
    (Union[int, str, None], "a"),  # noqa: UP007
    (int | list[int], [1]),
    (Literal["a", "b"], "b"),
    (Literal[1, None], None),
    (Path, Path("/tmp/a b")),
    (Path | None, Path("a")),
    (dict[str, Path], {"a": Path("b")}),
    (Annotated[int, msgspec.Meta(gt=0)], 5),
    (Annotated[list[Path], "documented"], [Path("a")]),
    (Any, ["a", b"b", {"c": True}]),
]


def signature(function: Callable[..., Any]) -> Signature:
    return Signature(function, "shop.pay", Context)


def annotated(kind: Any) -> Signature:
    def function(value: kind) -> None: ...

    return signature(function)


def spread(kind: Any) -> Signature:
    def function(*values: kind, **named: kind) -> None: ...

    return signature(function)


def travelled(
    function: Callable[..., Any] | Signature, *args: Any, **kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    way = function if isinstance(function, Signature) else signature(function)
    return way.decode(way.encode(args, kwargs))


# Types


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda item: ascii(item)[:40])
def test_a_value_arrives_as_what_it_was(kind: Any, value: Any) -> None:
    ((arrived,), named) = travelled(annotated(kind), value)
    assert arrived == value
    assert type(arrived) is type(value)
    assert named == {}


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda item: ascii(item)[:40])
def test_a_value_arrives_as_what_it_was_in_a_variadic_function(kind: Any, value: Any) -> None:
    (_, arrived), named = travelled(spread(kind), value, value, named=value)
    assert arrived == value == named["named"]
    assert type(arrived) is type(value) is type(named["named"])


def test_nan_arrives_as_nan() -> None:
    ((arrived,), _) = travelled(annotated(float), float("nan"))
    assert isnan(arrived)


def test_a_whole_number_arrives_as_the_float_that_was_asked_for() -> None:
    ((arrived,), _) = travelled(annotated(float), 5)
    assert (arrived, type(arrived)) == (5.0, float)


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
def test_any_text_arrives(text: str) -> None:
    assert travelled(annotated(str), text) == ((text,), {})


@given(st.datetimes() | st.datetimes(timezones=st.timezones()))
def test_any_moment_arrives(moment: datetime) -> None:
    if moment.tzinfo is not None:
        # Moments travel as UTC, which the year 1 and the year 9999 do not have for every zone.
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:
            return
    assert travelled(annotated(datetime), moment) == ((moment,), {})


@given(st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000)))
def test_any_length_of_time_arrives(length: timedelta) -> None:
    assert travelled(annotated(timedelta), length) == ((length,), {})


@given(st.decimals(allow_nan=False))
def test_any_decimal_arrives(number: Decimal) -> None:
    assert travelled(annotated(Decimal), number) == ((number,), {})


def test_without_an_annotation_plain_values_arrive() -> None:
    def function(a, b=None, *, c=None): ...  # type: ignore[no-untyped-def]

    assert travelled(function, 1, "x", c=[b"y", {"z": 2.5}]) == (
        (1, "x"),
        {"c": [b"y", {"z": 2.5}]},
    )


# Shapes


def plain(a: int, b: str = "b", c: float = 0.5) -> None: ...
def positional_only(a: int, b: int = 2, /, c: int = 3) -> None: ...
def keyword_only(a: int, *, b: int = 2, c: str = "c") -> None: ...
def keyword_required(a: int = 1, *, b: int, c: int = 3) -> None: ...
def nothing() -> None: ...
def many(a: int, *rest: date) -> None: ...
def named(a: int, **more: date) -> None: ...
def all_kinds(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **more: date) -> None: ...
def mutable(a: list[int] = [], b: dict[str, int] = {}) -> None: ...  # noqa: B006


TODAY = date(2030, 6, 1)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "arrives"),
    [
        (plain, (1,), {}, ((1, "b", 0.5), {})),
        (plain, (1, "x", 2.0), {}, ((1, "x", 2.0), {})),
        (plain, (1,), {"c": 2.0}, ((1, "b", 2.0), {})),
        (plain, (), {"b": "x", "a": 1}, ((1, "x", 0.5), {})),
        (positional_only, (1,), {}, ((1, 2, 3), {})),
        (positional_only, (1, 5), {"c": 6}, ((1, 5, 6), {})),
        (keyword_only, (1,), {}, ((1,), {"b": 2, "c": "c"})),
        (keyword_only, (1,), {"c": "x"}, ((1,), {"b": 2, "c": "x"})),
        (keyword_required, (), {"b": 5}, ((1,), {"b": 5, "c": 3})),
        (keyword_required, (7,), {"c": 9, "b": 8}, ((7,), {"b": 8, "c": 9})),
        (nothing, (), {}, ((), {})),
        (many, (1,), {}, ((1,), {})),
        (many, (1, TODAY, TODAY), {}, ((1, TODAY, TODAY), {})),
        (named, (1,), {}, ((1,), {})),
        (named, (1,), {"x": TODAY, "a_b": TODAY}, ((1,), {"x": TODAY, "a_b": TODAY})),
        (all_kinds, (1,), {"c": 3}, ((1,), {"c": 3})),
        (
            all_kinds,
            (1, 5, 6, 7),
            {"c": 3, "d": 8, "e": TODAY, "a": TODAY},
            ((1, 5, 6, 7), {"c": 3, "d": 8, "e": TODAY, "a": TODAY}),
        ),
        (mutable, (), {}, (([], {}), {})),
        (mutable, ([1],), {"b": {"x": 1}}, (([1], {"x": 1}), {})),
    ],
)
def test_arguments_arrive_where_they_belong(
    function: Callable[..., Any], args: Any, kwargs: Any, arrives: Any
) -> None:
    assert travelled(function, *args, **kwargs) == arrives


def test_trailing_defaults_do_not_travel() -> None:
    way = signature(plain)
    assert len(way.encode((1,), {})) < len(way.encode((1, "b"), {}))
    assert way.encode((), {"a": 1}) == way.encode((1,), {})


def test_a_default_that_changes_later_is_the_newer_one() -> None:
    def newer(a: int, b: str = "new") -> None: ...

    assert signature(newer).decode(signature(plain).encode((1,), {})) == ((1, "new"), {})


def test_names_of_parameters_may_be_anything_that_python_allows() -> None:
    def function(_x: int, self: int, type: int, größe: int, class_: int = 5) -> None: ...

    assert travelled(function, 1, 2, 3, größe=4) == ((1, 2, 3, 4, 5), {})


def test_the_type_of_the_result_is_known() -> None:
    def function() -> list[Point]:
        return []

    assert signature(function).returns == list[Point]
    assert signature(lambda: 1).returns is Any


# The parameter that is filled in


def first(ctx: Context, a: int, b: int = 2) -> None: ...
def middle(a: int, ctx: Context, b: int = 2) -> None: ...
def last(a: int, b: int, ctx: Context) -> None: ...
def by_keyword(a: int, b: int = 2, *, ctx: Context) -> None: ...
def with_rest(ctx: Context, *rest: int) -> None: ...
def quoted(ctx: "Context", a: int, b: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "position"),
    [(first, 0), (middle, 1), (last, 2), (by_keyword, 2), (with_rest, 0), (quoted, 0)],
)
def test_the_context_does_not_travel_wherever_it_stands(
    function: Callable[..., Any], position: int
) -> None:
    way = signature(function)
    assert (way.injected_as, way.injected_at) == ("ctx", position)
    assert travelled(way, 1, 2) == ((1, 2), {})


def test_a_function_without_a_context_has_none() -> None:
    assert (signature(plain).injected_as, signature(plain).injected_at) == (None, -1)


def test_the_context_cannot_be_given_by_the_sender() -> None:
    with pytest.raises(ArgumentError, match="ctx"):
        signature(first).encode((1,), {"ctx": 5})


def before_names(ctx: Context, a: int, **more: int) -> None: ...
def without_name(ctx: Context, /, a: int, **more: int) -> None: ...
def among_names(a: int, *, ctx: Context, **more: int) -> None: ...


@pytest.mark.parametrize("function", [before_names, without_name, among_names])
def test_the_context_cannot_be_given_as_one_of_any_names(function: Callable[..., Any]) -> None:
    assert travelled(function, 1, other=5) == ((1,), {"other": 5})
    for send in (signature(function).encode, signature(function).encode_call):
        with pytest.raises(ArgumentError, match="argument 'ctx' is filled in") as caught:
            send((1,), {"ctx": 5})
        assert caught.value.argument == "ctx"


def only_by_place(a: int = 1, ctx: Context | None = None, /, **more: int) -> None: ...
def by_place_or_name(a: int = 1, ctx: Context | None = None, *rest: int) -> None: ...
def required_before(a: int, ctx: Context, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "called"),
    [
        (plain, (1, 2), {}, ((1, 2), {})),
        (only_by_place, (), {}, ((1, "it"), {})),
        (only_by_place, (5,), {"ctx": 6}, ((5, "it"), {"ctx": 6})),
        (by_place_or_name, (), {}, ((), {"ctx": "it"})),
        (by_place_or_name, (5, 6), {}, ((5, "it", 6), {})),
        (among_names, (5,), {}, ((5,), {"ctx": "it"})),
        # Python says what is missing.
        (required_before, (), {}, ((), {})),
        (required_before, (5,), {}, ((5, "it"), {})),
    ],
)
def test_the_context_is_given_by_place_or_by_name_as_its_parameter_allows(
    function: Callable[..., Any], args: tuple[int, ...], kwargs: dict[str, int], called: Any
) -> None:
    assert signature(function).with_injected("it", args, kwargs) == called


def test_a_context_that_has_no_name_for_callers_is_not_given_by_one() -> None:
    assert signature(by_place_or_name).is_injected_in({"ctx": 5})
    assert not signature(only_by_place).is_injected_in({"ctx": 5})
    assert not signature(plain).is_injected_in({"ctx": 5})


# What cannot travel


class Opaque:
    pass


class Anything(pydantic.BaseModel):
    inner: Any


@dataclass
class Holder:
    inner: Any


def ring() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


CANNOT_TRAVEL = {
    "complex": lambda: 1j,
    "lambda": lambda: lambda: 1,
    "int over 64 bits": lambda: 2**64,
    "int under 64 bits": lambda: -(2**63) - 1,
    "lone surrogate": lambda: "a\ud800",
    "ring": ring,
    "iterator": lambda: iter(()),
    "class": lambda: Opaque,
    "object": Opaque,
    "deep inside a dataclass": lambda: Holder([{"a": Holder((1, Opaque()))}]),
    "surrogate as a key": lambda: {"\udcff": 1},
    "model that holds one": lambda: Anything(inner=Opaque()),
}


@pytest.mark.parametrize("make", CANNOT_TRAVEL.values(), ids=CANNOT_TRAVEL.keys())
def test_an_argument_that_cannot_travel_is_named(make: Callable[[], Any]) -> None:
    def pay(order: Any, amount: Any, *, note: Any = None) -> None: ...

    for args, kwargs, blamed in [
        ((make(), 1), {}, "order"),
        ((1, make()), {}, "amount"),
        ((1, 2), {"note": make()}, "note"),
    ]:
        with pytest.raises(
            ArgumentError, match=rf"'shop\.pay'.*'{blamed}' cannot travel"
        ) as caught:
            signature(pay).encode(args, kwargs)
        assert (caught.value.task, caught.value.argument) == ("shop.pay", blamed)


def test_an_open_file_cannot_travel() -> None:
    def upload(name: str, source: Any) -> None: ...

    with tempfile.TemporaryFile() as source, pytest.raises(ArgumentError, match="'source'"):
        signature(upload).encode(("a", source), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "blamed"),
    [
        ((Opaque(),), {"c": 1}, "a"),
        ((1, Opaque()), {"c": 1}, "b"),
        ((1,), {"c": Opaque()}, "c"),
        ((1,), {"c": 1, "extra": Opaque()}, "extra"),
    ],
)
def test_what_cannot_travel_is_named_in_a_variadic_function_too(
    args: Any, kwargs: Any, blamed: str
) -> None:
    with pytest.raises(ArgumentError, match="cannot travel") as caught:
        signature(all_kinds).encode(args, kwargs)
    assert caught.value.argument == blamed


def test_of_the_rest_the_one_that_cannot_travel_is_pointed_at() -> None:
    with pytest.raises(ArgumentError, match="rest") as caught:
        signature(many).encode((1, TODAY, Opaque()), {})
    assert caught.value.argument is not None


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "says"),
    [
        (plain, (), {}, "'a'"),
        (plain, (1, "b", 0.5, 4), {}, "too many"),
        (plain, (1,), {"a": 1}, "'a'"),
        (plain, (1,), {"colour": 1}, "'colour'"),
        (nothing, (1,), {}, "too many"),
        (positional_only, (), {"a": 1}, "'a'"),
        (keyword_only, (1, 2), {}, "too many"),
        (keyword_required, (1,), {}, "'b'"),
        (many, (), {}, "'a'"),
        (named, (), {"x": TODAY}, "'a'"),
        (all_kinds, (1,), {}, "'c'"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_what_would(
    function: Callable[..., Any], args: Any, kwargs: Any, says: str
) -> None:
    with pytest.raises(ArgumentError, match=says) as caught:
        signature(function).encode(args, kwargs)
    assert "it takes shop.pay(" in str(caught.value)


def test_the_largest_argument_is_known() -> None:
    way = signature(plain)
    assert way.largest((1, "x" * 100), {}) == "b"
    assert way.largest((1,), {"b": "", "c": 1.5}) == "c"
    assert signature(nothing).largest((), {}) is None
    assert signature(all_kinds).largest((1,), {"c": 1, "e": "x" * 50}) == "more"


# What arrives and does not fit


def sent(*fields: Any) -> bytes:
    return codec.encode(fields)


@pytest.mark.parametrize(
    ("function", "payload", "names"),
    [
        (plain, sent("x"), "'a'"),
        (plain, sent(1, 5), "'b'"),
        (plain, sent(1, "b", "c"), "'c'"),
        (keyword_only, sent(1, 2, 3), "'c'"),
        (first, sent("x"), "'a'"),
        (middle, sent(1, "x"), "'b'"),
        (many, sent("x"), "'a'"),
        (many, sent(1, "x"), "'rest'"),
        (named, codec.encode({"a": 1, "x": 5}), "'x'"),
        (plain, sent(), "'a'"),
        (keyword_required, sent(1), "'b'"),
        (many, sent(), "'a'"),
        (named, codec.encode({"x": "2030-06-01"}), "'a'"),
    ],
)
def test_an_argument_that_does_not_fit_on_arrival_is_named(
    function: Callable[..., Any], payload: bytes, names: str
) -> None:
    with pytest.raises(Misfit, match=names):
        signature(function).decode(payload)


def test_a_misfit_deep_inside_an_argument_names_the_argument_and_the_place() -> None:
    def pay(note: str, order: Order) -> None: ...

    lines = [{"article": "a", "price": "1"}, {"article": "b", "price": "x"}]
    order = {"id": str(KEY), "paid": "2030-06-01T12:00:00Z", "lines": lines}
    with pytest.raises(Misfit, match=r"'order'.*lines\[1\]\.price"):
        signature(pay).decode(sent("n", order))


def test_a_misfit_of_a_pydantic_model_names_the_argument_and_the_field() -> None:
    def greet(greeting: str, who: Address) -> None: ...

    with pytest.raises(Misfit, match=r"(?s)'who'.*zip"):
        signature(greet).decode(sent("hi", {"street": "s"}))


def test_a_constraint_is_kept_on_arrival() -> None:
    with pytest.raises(Misfit, match="'value'"):
        annotated(Annotated[int, msgspec.Meta(gt=0)]).decode(sent(-5))


@pytest.mark.parametrize("function", [plain, keyword_only, nothing])
def test_more_arguments_than_the_function_takes_are_a_misfit(function: Callable[..., Any]) -> None:
    with pytest.raises(Misfit):
        signature(function).decode(sent(1, "b", 0.5, 4, 5))


@given(st.binary(max_size=60))
def test_garbage_is_a_misfit_and_nothing_else(payload: bytes) -> None:
    for function in (plain, keyword_required, all_kinds, first):
        try:
            signature(function).decode(payload)
        except Misfit:
            continue


# Functions that cannot be tasks


def test_an_annotation_that_cannot_be_resolved_is_refused_at_declaration() -> None:
    def function(value: "Elsewhere") -> None: ...

    with pytest.raises(ConfigError, match=r"'shop\.pay'.*Elsewhere.*TYPE_CHECKING"):
        signature(function)


@pytest.mark.parametrize("way", [annotated, spread])
@pytest.mark.parametrize("kind", [datetime | uuid.UUID, Line | Order, str | bytes])
def test_an_annotation_that_is_ambiguous_on_the_wire_is_refused_at_declaration(
    way: Callable[[Any], Signature], kind: Any
) -> None:
    with pytest.raises(ConfigError, match=r"'shop\.pay'.*annotations"):
        way(kind)


@pytest.mark.parametrize("way", [annotated, spread])
@pytest.mark.parametrize("kind", [complex, Opaque, list[Opaque], Callable[[], int]])
def test_an_annotation_that_nothing_can_arrive_as_is_refused_at_declaration(
    way: Callable[[Any], Signature], kind: Any
) -> None:
    """Otherwise each job would be accepted, and die where it arrives."""
    with pytest.raises(ConfigError, match=r"'shop\.pay'.*annotations"):
        way(kind)


def fed(signature: Signature, first: Any, *args: Any, **kwargs: Any) -> Any:
    """The arguments as they arrive behind a first one that another job gave."""
    _, payload_after_first = signature.encode_call(args, kwargs)
    assert payload_after_first is not None
    return signature.decode_with_first(payload_after_first, codec.encode(first))


def test_an_open_call_is_given_its_first_argument_by_its_annotation() -> None:
    def ship(order: Order, colour: Colour, *, level: Level = Level.LOW) -> None: ...

    signature = Signature(ship, "ship", Context)
    order = Order(uuid.uuid4(), datetime.now(UTC), [Line("x", Decimal("1.5"))])
    assert signature.encode_call([Colour.BLUE], {})[0] is None
    assert fed(signature, order, Colour.BLUE) == ((order, Colour.BLUE), {"level": Level.LOW})
    assert fed(signature, order, level=Level.HIGH, colour=Colour.RED) == (
        (order, Colour.RED),
        {"level": Level.HIGH},
    )


def test_a_whole_call_with_room_can_be_fed_too() -> None:
    def add(a: int, b: int = 2, c: int = 3) -> None: ...

    signature = Signature(add, "add", Context)
    assert fed(signature, 7) == ((7, 2, 3), {})
    assert fed(signature, 7, 8) == ((7, 8, 3), {})
    assert fed(signature, 7, c=9) == ((7, 2, 9), {})
    payload, payload_after_first = signature.encode_call([1, 2, 3], {})
    assert payload is not None
    assert payload_after_first is None
    assert signature.encode_call([], {"a": 1}) == (codec.encode({"a": 1}), None)


def test_a_function_with_any_arguments_can_be_fed() -> None:
    def total(first: Decimal, *rest: int, **named: date) -> None: ...

    signature = Signature(total, "total", Context)
    day = date(2030, 1, 2)
    assert fed(signature, Decimal(1)) == ((Decimal(1),), {})
    assert fed(signature, Decimal(1), 2, 3, day=day) == ((Decimal(1), 2, 3), {"day": day})
    assert fed(signature, Decimal(1), *range(20)) == ((Decimal(1), *range(20)), {})


def test_a_context_is_no_argument_to_feed() -> None:
    def with_context(ctx: Context, item: int) -> None: ...

    assert fed(Signature(with_context, "with_context", Context), 5) == ((5,), {})


def test_what_cannot_be_bound_even_with_a_first_argument_is_refused() -> None:
    def add(a: int, b: int) -> None: ...
    def named_only(*, a: int) -> None: ...
    def nothing(**named: int) -> None: ...

    with pytest.raises(ArgumentError, match="too many"):
        Signature(add, "add", Context).encode_call([1, 2, 3], {})
    with pytest.raises(ArgumentError, match="'b'"):
        Signature(add, "add", Context).encode_call([], {"a": 1, "c": 2})
    with pytest.raises(ArgumentError, match="'a'"):
        Signature(named_only, "named_only", Context).encode_call([], {})
    assert Signature(nothing, "nothing", Context).encode_call([], {})[1] is None


def test_an_argument_of_an_open_call_that_cannot_travel_is_named() -> None:
    def add(a: int, b: object) -> None: ...

    with pytest.raises(ArgumentError, match="'b' cannot travel"):
        Signature(add, "add", Context).encode_call([object()], {})


def test_a_fed_argument_that_does_not_fit_is_named() -> None:
    def add(a: int, b: int) -> None: ...

    signature = Signature(add, "add", Context)
    with pytest.raises(Misfit, match="'a'"):
        fed(signature, "text", 1)
    with pytest.raises(Misfit, match="neither a map nor an array"):
        signature.decode_with_first(b"\x01", codec.encode(1))
    with pytest.raises(Misfit, match="neither a map nor an array"):
        signature.decode_with_first(b"\xdc\x00", codec.encode(1))


@given(st.integers(0, 70_000))
def test_an_array_of_any_length_takes_one_more(count: int) -> None:
    items = [0] * count
    spliced = with_first(codec.encode(items), codec.encode("first"))
    assert spliced == codec.encode(["first", *items])


def test_calls_that_mean_the_same_have_one_fingerprint() -> None:
    unsendable: Any = object()

    def add(a: int, b: int = 2, c: Any = unsendable) -> None: ...

    signature = Signature(add, "add", Context)
    assert signature.fingerprint([1, 2], {}, False) == signature.fingerprint([1], {"b": 2}, False)
    assert signature.fingerprint([2], {}, False) != signature.fingerprint([2], {}, True)


def test_of_a_batch_function_one_item_travels() -> None:
    def load(ctx: Context, lines: list[Line]) -> list[Decimal | ValueError]:
        return []

    signature = Signature(load, "load", Context, batched=True)
    line = Line("x", Decimal(1))
    assert signature.decode(signature.encode([line], {})) == ((line,), {})
    assert signature.returns == Decimal


@pytest.mark.parametrize("returned", [None, list[None], list, int])
def test_what_a_batch_function_returns_is_what_each_of_its_jobs_returns(returned: Any) -> None:
    def load(items: list): ...  # type: ignore[no-untyped-def, type-arg]

    load.__annotations__["return"] = returned
    expected = {None: type(None), list[None]: type(None)}.get(returned, Any)
    assert Signature(load, "load", Context, batched=True).returns == expected


def test_a_batch_function_takes_one_list() -> None:
    def none() -> None: ...
    def two(a: list[int], b: list[int]) -> None: ...
    def text(a: str) -> None: ...
    def rest(*a: list[int]) -> None: ...

    for function in (none, two, text, rest):
        with pytest.raises(ConfigError, match="takes one list"):
            Signature(function, "load", Context, batched=True)


def test_arguments_in_code_are_the_same_bytes_however_a_set_is_ordered() -> None:
    def function(numbers: set[int], *, more: dict[str, Any]) -> None: ...

    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other), "they collide, so the first to come is the first"
    signature = Signature(function, "task", type(None))
    payloads = {signature.encode_declared([each], {"more": {"x": each}}) for each in (one, other)}
    assert len(payloads) == 1
    args, kwargs = signature.decode(payloads.pop())
    assert (*args, *kwargs.values()) == ({0, 8}, {"x": [0, 8]})
