"""Arguments of functions with `*args` or `**kwargs`, there and back, while the function changes;
and calls that mean the same to both versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from headrace.core import codec
from headrace.core.misfit import Misfit
from headrace.core.payload.codecs import FORMS, PLAIN, Form
from headrace.core.task.signature import Signature
from headrace.errors import ArgumentError


class Context:
    """Stands for what a worker fills in."""


Function = Callable[..., Any]


def way(
    function: Function,
    form: Form = PLAIN,
    ignore: bool = False,
    renamed: Mapping[str, str] | None = None,
) -> Signature:
    return Signature(
        function, "shop.pay", Context, form=form, ignores_unknown=ignore, renamed=renamed
    )


def two(a: int, b: int) -> None: ...
def defaults(a: int = 1, b: int = 2) -> None: ...
def first_and_rest(a: int, *rest: int) -> None: ...
def inserted(new: int = 9, a: int = 8, *rest: int) -> None: ...
def any_number(*values: int) -> None: ...
def any_names(**named: int) -> None: ...
def anything(*args: int, **kw: int) -> None: ...
def nameless(a: int = 1, b: int = 2, /, **kw: int) -> None: ...
def clashing(a: int = 1, /, **kw: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "travels"),
    [
        (first_and_rest, (1,), {}, {"a": 1}),
        (first_and_rest, (1, 2, 3), {}, {"a": 1, "*": [2, 3]}),
        (anything, (1,), {"x": 2}, {"x": 2, "*": [1]}),
        (anything, (), {"args": 1, "*": 2}, {"args": 1, "**": {"*": 2}}),
        (clashing, (4,), {"a": 5, "b": 6}, {"a": 4, "b": 6, "**": {"a": 5}}),
    ],
)
def test_what_has_a_name_travels_by_it(
    function: Function, args: Any, kwargs: Any, travels: dict[str, Any]
) -> None:
    payload = way(function).encode(args, kwargs)
    assert msgspec.msgpack.decode(payload) == travels
    assert way(function).decode(payload) == (args, kwargs)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("then", "args", "kwargs", "now", "arrives"),
    [
        (first_and_rest, (1,), {}, defaults, ((1, 2), {})),
        (first_and_rest, (1, 2), {}, inserted, ((9, 1, 2), {})),
        (any_names, (), {"b": 7}, defaults, ((1, 7), {})),
        (any_names, (), {"b": 7}, nameless, ((1, 7), {})),
        (defaults, (), {"b": 7}, nameless, ((1, 7), {})),
        (defaults, (5,), {}, nameless, ((5,), {})),
        (defaults, (5,), {}, anything, ((), {"a": 5})),
    ],
)
def test_arguments_find_their_names_when_the_function_changes(
    form: Form, then: Function, args: Any, kwargs: Any, now: Function, arrives: Any
) -> None:
    assert way(now, form).decode(way(then, form).encode(args, kwargs)) == arrives


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("then", "now", "sentence"),
    [
        (any_number, two, r"'\*'|'a' is missing"),
        (any_number, defaults, r"no argument '\*': it takes shop\.pay"),
        (any_number, nameless, None),
        (any_number, first_and_rest, "argument 'a' is missing: it takes shop"),
    ],
)
def test_what_had_no_name_is_not_given_to_another_argument(
    form: Form, then: Function, now: Function, sentence: str | None
) -> None:
    payload = way(then, form).encode((1, 2), {})
    with pytest.raises(Misfit, match=sentence or r"no argument '\*'"):
        way(now, form).decode(payload)


def test_old_names_are_found_before_places() -> None:
    now = way(nameless, renamed={"old": "b"})
    assert now.decode(codec.encode({"old": 7})) == ((1, 7), {})


@pytest.mark.parametrize(
    ("rest", "now", "arrives"),
    [
        ({"b": 5}, anything, ((1,), {"b": 5})),
        ({"*": [2, 3]}, any_number, ((1, 2, 3), {})),
        ({"*": [2]}, first_and_rest, ((1, 2), {})),
        ([2], any_number, ((1, 2), {})),
    ],
)
def test_a_result_is_fed_before_all_others(rest: Any, now: Function, arrives: Any) -> None:
    assert way(now).decode_with_first(codec.encode(rest), codec.encode(1)) == arrives


@pytest.mark.parametrize(
    ("rest", "now"),
    [({}, any_names), ({"*": 5}, any_number), (5, any_number), ({"*": [2]}, two)],
)
def test_a_result_that_has_no_place_is_a_misfit(rest: Any, now: Function) -> None:
    with pytest.raises(Misfit, match=r"it takes shop\.pay"):
        way(now).decode_with_first(codec.encode(rest), codec.encode(1))


def test_what_is_unset_is_refused_by_place_too() -> None:
    for args, kwargs in (((1, msgspec.UNSET), {}), ((1,), {"b": msgspec.UNSET})):
        with pytest.raises(ArgumentError, match="argument 'b' cannot travel"):
            way(two).encode(args, kwargs)


def same(
    one: Signature, args: Sequence[Any], other: Signature, others: Sequence[Any], **named: Any
) -> bool:
    return one.fingerprint(args, {}, False) == other.fingerprint(others, named, False)


def test_calls_that_mean_the_same_to_two_versions_have_one_fingerprint() -> None:
    def move(source: str, target: str) -> None: ...
    def moved(target: str, source: str) -> None: ...
    def one(a: int) -> None: ...
    def longer(a: int, b: int = 1) -> None: ...
    def by_keyword(a: int, *, b: int) -> None: ...
    def renamed(x: int, b: int) -> None: ...

    assert not same(way(move), ["x", "y"], way(moved), ["x", "y"])
    assert same(way(move), ["x", "y"], way(moved), ["y", "x"])
    assert same(way(one), [5], way(longer), [5])
    assert same(way(one), [5], way(longer), [5], b=1)
    assert not same(way(one), [5], way(longer), [5], b=True)
    assert same(way(two), [3, 4], way(by_keyword), [3], b=4)
    assert same(way(two), [3, 4], way(renamed, renamed={"a": "x"}), [3, 4])
    assert same(way(one), [1], way(first_and_rest), [1])
    assert not same(way(one), [1], way(first_and_rest), [1, 2])
    after = way(two).fingerprint([4], {}, True)
    assert after == way(by_keyword).fingerprint([], {"b": 4}, True)
    assert way(any_number).fingerprint([], {}, True) != way(any_number).fingerprint([1], {}, True)
