"""Functions that change while their jobs wait: arguments are found by name, and misfits named."""

# Without `from __future__ import annotations`: functions here are annotated with local values.

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pytest

from headrace.core import codec
from headrace.core.codec import with_first_named
from headrace.core.misfit import Misfit, field_problem
from headrace.core.payload.codecs import FORMS, PLAIN, Form
from headrace.core.task.options import TaskOptions, check_defaults
from headrace.core.task.signature import Signature
from headrace.errors import ConfigError


class Context:
    """Stands for what a worker fills in."""


@dataclass
class Order:
    id: str
    cents: int


Function = Callable[..., Any]
Renamed = Mapping[str, str]


def way(
    function: Function, form: Form = PLAIN, ignore: bool = False, renamed: Renamed | None = None
) -> Signature:
    return Signature(
        function, "shop.pay", Context, form=form, ignores_unknown=ignore, renamed=renamed
    )


def sent(a: int, b: str, c: float) -> None: ...


def inserted(a: int, new: str = "new", *, b: str, c: float) -> None: ...
def reordered(c: float, b: str, a: int) -> None: ...
def without_first(b: str, c: float) -> None: ...
def without_middle(a: int, c: float) -> None: ...
def without_any() -> None: ...
def any_names(a: int, /, **more: Any) -> None: ...
def any_number(a: int, *more: Any) -> None: ...


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("now", "arrives"),
    [
        (inserted, ((1, "new"), {"b": "x", "c": 2.5})),
        (reordered, ((2.5, "x", 1), {})),
        (any_names, ((1,), {"b": "x", "c": 2.5})),
    ],
)
def test_arguments_are_found_by_name(form: Form, now: Function, arrives: Any) -> None:
    assert way(now, form).decode(way(sent, form).encode((1, "x", 2.5), {})) == arrives


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("now", "gone", "arrives"),
    [
        (without_first, "a", ("x", 2.5)),
        (without_middle, "b", (1, 2.5)),
        (without_any, "a", ()),
    ],
)
def test_an_argument_that_was_removed_is_refused_by_name_or_ignored(
    form: Form, now: Function, gone: str, arrives: Any
) -> None:
    payload = way(sent, form).encode((1, "x", 2.5), {})
    with pytest.raises(
        Misfit, match=rf"no argument '{gone}': it takes shop\.pay\(.*unknown_arguments='ignore'"
    ):
        way(now, form).decode(payload)
    assert way(now, form, ignore=True).decode(payload) == (arrives, {})


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_would_help_is_said_only_if_it_would(form: Form) -> None:
    def before(mail: str, text: str) -> None: ...
    def renamed(to: str, text: str, language: str = "en") -> None: ...
    def other(to: str, body: str) -> None: ...

    payload = way(before, form).encode(("ada", "hi"), {})
    with pytest.raises(Misfit, match=r"no argument 'mail': .*renamed_arguments=\{'mail': 'to'\}$"):
        way(renamed, form).decode(payload)
    assert way(renamed, form, renamed={"mail": "to"}).decode(payload) == (("ada", "hi", "en"), {})
    with pytest.raises(Misfit, match=r"it needs and did not get: 'to', 'body'$"):
        way(other, form).decode(payload)


def test_what_comes_without_names_is_ignored_at_its_end() -> None:
    payload = codec.encode([1, 2.5, "more"])
    with pytest.raises(Misfit, match="there are 3 arguments: it takes shop"):
        way(without_middle).decode(payload)
    assert way(without_middle, ignore=True).decode(payload) == ((1, 2.5), {})
    assert way(any_number).decode(codec.encode([1, 2, 3])) == ((1, 2, 3), {})


def test_what_a_function_of_any_number_does_not_take_is_refused_or_ignored() -> None:
    # Also what is called as the parameter is that takes the rest.
    for gone in ("gone", "more"):
        payload = codec.encode({"a": 1, "*": [2], gone: 5})
        assert way(any_number, ignore=True).decode(payload) == ((1, 2), {})
        with pytest.raises(Misfit, match=rf"no argument '{gone}': it takes shop.*'ignore'"):
            way(any_number).decode(payload)


def test_an_argument_that_was_renamed_keeps_its_value() -> None:
    def renamed(a: int, note: str = "-", *, price: float) -> None: ...

    names = {"b": "note", "c": "price"}
    payload = way(sent).encode((1, "x", 2.5), {})
    for ignore in (False, True):
        now = way(renamed, ignore=ignore, renamed=names)
        assert now.decode(payload) == ((1, "x"), {"price": 2.5})
        assert now.decode(now.encode((1,), {"price": 2.5})) == ((1, "-"), {"price": 2.5})
        assert now.decode(codec.encode({"a": 1, "c": 1, "price": 2})) == ((1, "-"), {"price": 2})
    with pytest.raises(Misfit, match="no argument 'd'"):
        way(renamed, renamed=names).decode(codec.encode({"a": 1, "c": 1, "d": 2}))
    assert way(any_names, renamed={"old": "a"}).decode(codec.encode({"old": 1, "b": 2})) == (
        (1,),
        {"b": 2},
    )


def test_of_several_names_of_an_argument_the_newest_counts() -> None:
    now = way(without_first, renamed={"first": "b", "second": "b"})
    for given, b in (({"second": "2", "first": "1"}, "2"), ({"first": "1", "b": "3"}, "3")):
        assert now.decode(codec.encode({**given, "c": 1.5})) == ((b, 1.5), {})


@pytest.mark.parametrize(
    ("renamed", "sentence"),
    [
        ({"b": "gone"}, "'b' is 'gone' now: there is no such argument; it takes shop.pay"),
        ({"a": "c"}, "renamed_arguments: 'a' is an argument of the task: leave it out"),
    ],
)
def test_a_new_name_must_be_an_argument(renamed: Renamed, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        way(without_middle, renamed=renamed)


def pay(order: Order, times: int = 1) -> None: ...


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "argument 'order' is missing: it takes shop.pay(order:"),
        ({"order": {"id": "o", "cents": 5}, "times": "x"}, "argument 'times': expected `int`, got"),
        (
            {"order": {"id": "o", "cents": "x"}},
            "argument 'order': expected `int`, got `str`, at `order.cents`",
        ),
        ({"order": {"id": "o"}}, "argument 'order': its field 'cents' is missing"),
        ([{"id": "o"}], "argument 'order': its field 'cents' is missing"),
        ([], "argument 'order' is missing: it takes shop.pay(order:"),
        (5, "its arguments cannot be read: expected `dict`, got `int`; it takes shop.pay("),
    ],
)
def test_what_does_not_fit_is_named(form: Form, given: Any, sentence: str) -> None:
    with pytest.raises(Misfit) as caught:
        way(pay, form).decode(form.encode(given))
    assert str(caught.value).startswith(sentence)
    assert "`array`" not in str(caught.value)
    assert "$" not in str(caught.value)


def test_what_does_not_fit_among_any_arguments_is_named() -> None:
    def many(first: Order, *rest: Order) -> None: ...

    with pytest.raises(Misfit, match=r"'rest': expected `int`, got `str`, at `rest\.cents`"):
        way(many).decode(codec.encode([{"id": "o", "cents": 1}, {"id": "o", "cents": "x"}]))
    with pytest.raises(Misfit, match="its arguments cannot be read"):
        way(many).decode(codec.encode(5))


def test_a_misfit_of_one_value_names_its_fields() -> None:
    def problem(given: Any) -> str:
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.convert(given, dict[str, Order])
        return field_problem(caught.value)

    assert problem({"a": {"id": "o"}}) == "its field 'cents' is missing, at `[...]`"
    assert problem({1: {}}) == "expected `str`, got `int`, at a key"
    assert problem(5) == "expected `dict`, got `int`"


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (5, list[int], "expected `list`, got `int`"),
        ({}, list[int] | None, "expected `list | None`, got `dict`"),
        (None, dict[str, int], "expected `dict`, got `None`"),
        ([1], tuple[int, int], "expected `list` of length 2, got 1"),
        ({"array": 5}, dict[str, list[int]], "expected `list`, got `int`, at `[...]`"),
        ("x", UUID, "Invalid UUID"),
    ],
)
def test_types_go_by_their_names_in_python(given: Any, kind: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, kind)
    assert field_problem(caught.value) == said


def test_a_result_is_fed_under_the_name_of_the_first_argument() -> None:
    def old(order: int, b: int = 2) -> None: ...
    def new(bill: int, b: int = 3, extra: int = 4) -> None: ...

    _, after_first = way(old).encode_call([], {"b": 5})
    assert after_first == codec.encode({"b": 5})
    assert way(new).decode_with_first(after_first, codec.encode(1)) == ((1, 5, 4), {})


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 0xFFFF, 0x10000])
def test_a_map_of_any_length_takes_one_more(count: int) -> None:
    items = {str(number): 0 for number in range(count)}
    spliced = with_first_named(codec.encode(items), "first", codec.encode(5))
    assert spliced == codec.encode({"first": 5, **items})


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\xde\x00", b"\x90"])
def test_what_is_no_map_takes_none(payload: bytes) -> None:
    assert with_first_named(payload, "first", b"\x01") is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"unknown_arguments": "drop"}, "unknown_arguments must be 'refuse' or 'ignore', not"),
        ({"renamed_arguments": ["a"]}, "renamed_arguments maps old names to new ones"),
        ({"renamed_arguments": {"a": 5}}, "renamed_arguments maps old names to new ones"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"task 'send': {sentence}"):
        TaskOptions.of({"name": "send", "run_in": "loop", **options})


def test_unknown_arguments_can_be_ignored_by_default() -> None:
    assert check_defaults({"unknown_arguments": "ignore"}) == {"unknown_arguments": "ignore"}


@pytest.mark.parametrize(
    ("aliases", "sentence"),
    [
        ("old", "aliases must be a list of names, such as"),
        (5, "aliases must be a list of names, such as"),
        ([""], "an alias"),
        (["older", "send"], "its own name cannot be an alias of it"),
    ],
)
def test_aliases_that_make_no_sense_are_refused(aliases: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"task 'send': {sentence}"):
        TaskOptions.of({"name": "send", "run_in": "loop", "aliases": aliases})


def test_limits_keep_the_first_name_of_a_task() -> None:
    renamed = TaskOptions.of({"name": "new", "run_in": "loop", "aliases": ["oldest", "old"]})
    assert (renamed.names, renamed.label) == (("new", "oldest", "old"), "oldest")
    assert TaskOptions.of({"name": "new", "run_in": "loop"}).label == "new"
