"""Arguments by another codec than MessagePack: JSON, or one's own, which knows no types."""

# Without `from __future__ import annotations`: functions here are annotated with local values.

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from headrace.core import codec
from headrace.core.misfit import Misfit, UnknownContent
from headrace.core.payload.codecs import FORMS, own_form
from headrace.core.task.signature import Signature, is_async
from headrace.errors import ArgumentError, ConfigError

JSON = "application/json"


class Context:
    """Stands for what a worker fills in."""


class Spelled:
    """Python's own spelling: it has complex numbers and sets, but no classes."""

    name = "spelled"

    def encode(self, value: Any) -> bytes:
        text = repr(value)
        ast.literal_eval(text)
        return text.encode()

    def decode(self, data: bytes) -> Any:
        return ast.literal_eval(data.decode())


@dataclass
class Line:
    article: str
    count: int


def own(function: Callable[..., Any]) -> Signature:
    return Signature(function, "shop.pay", Context, form=own_form(Spelled()))


def by_json(function: Callable[..., Any]) -> Signature:
    return Signature(function, "shop.pay", Context, form=FORMS["json"])


def plain(function: Callable[..., Any]) -> Signature:
    return Signature(function, "shop.pay", Context)


def there_and_back(signature: Signature, *args: Any, **kwargs: Any) -> Any:
    return signature.decode(signature.encode(args, kwargs))


def pay(amount: int, line: Line | None = None, *, note: str = "-") -> None: ...
def turn(by: complex, steps: set[int], also: complex | None = None) -> None: ...
def many(first: int, *rest: int, **named: complex) -> None: ...


def test_json_converts_by_the_annotations() -> None:
    line = Line("a-1", 2)
    assert there_and_back(by_json(pay), 5, line, note="x") == ((5, line), {"note": "x"})
    assert msgspec.json.decode(by_json(pay).encode([5], {})) == {"amount": 5}
    assert there_and_back(by_json(pay), 5) == ((5, None), {"note": "-"})


def test_a_codec_of_ones_own_gives_what_it_made() -> None:
    assert there_and_back(own(turn), 2j, {1, 2}) == ((2j, {1, 2}), {})
    assert there_and_back(own(turn), 2j, {1}, 3j) == ((2j, {1}, 3j), {})
    assert there_and_back(own(many), 1, 2, 3, by=4j) == ((1, 2, 3), {"by": 4j})


def test_what_a_codec_of_ones_own_gives_without_an_annotation_stays_as_it_is() -> None:
    class Row(TypedDict):
        id: int

    def untyped(a, b: Any, c: object, row: Row): ...  # type: ignore[no-untyped-def]

    row: Row = {"id": 1}
    assert there_and_back(own(untyped), 1, 2j, {3}, row) == ((1, 2j, {3}, row), {})
    with pytest.raises(Misfit, match="argument 'row': its field 'id' is missing"):
        own(untyped).decode(b"[1, 2, 3, {}]")


def test_any_number_by_ones_own_codec_is_not_taken_for_arguments_in_order() -> None:
    def any_number(*values: int) -> None: ...
    def two(a: Any, b: Any) -> None: ...

    with pytest.raises(Misfit, match=r"no argument '\*'"):
        own(two).decode(own(any_number).encode([1, 2], {}))


def test_what_a_codec_of_ones_own_left_plain_is_converted() -> None:
    payload = repr([5, {"article": "a-1", "count": 2}, "x"]).encode()
    assert own(pay).decode(payload) == ((5, Line("a-1", 2)), {"note": "x"})


@pytest.mark.parametrize(
    ("function", "values", "problem"),
    [
        (pay, ["5"], "argument 'amount': expected `int`, got `str`"),
        (pay, [True], "argument 'amount': expected `int`, got `bool`"),
        (pay, [5, {"article": "a"}], "argument 'line': its field 'count' is missing"),
        (pay, [], "missing a required argument: 'amount'"),
        (pay, [1, None, "x", 4], "there are 4 arguments: it takes shop.pay"),
        (pay, 5, "codec 'spelled': 'int' object is not iterable"),
        (many, [1, "2"], "argument 'rest': expected `int`, got `str`"),
        (many, {"first": 1, "*": ["2"]}, "argument 'rest': expected `int`, got `str`"),
        (many, {"first": 1, "*": 5}, "'\\*' takes a list"),
        (many, {}, "argument 'first' is missing: it takes shop.pay"),
        (many, [], "missing a required argument: 'first'"),
    ],
)
def test_what_does_not_fit_is_a_misfit_by_ones_own_codec_too(
    function: Callable[..., Any], values: object, problem: str
) -> None:
    with pytest.raises(Misfit, match=problem):
        own(function).decode(repr(values).encode())


def test_an_error_of_ones_own_codec_is_a_misfit_that_names_the_codec() -> None:
    class Silent(Spelled):
        name = "silent"

        def decode(self, data: bytes) -> Any:
            raise LookupError

    signature = Signature(pay, "shop.pay", Context, form=own_form(Silent()))
    with pytest.raises(Misfit, match=r"^codec 'silent': LookupError$"):
        signature.decode(b"[1]")


@pytest.mark.parametrize("function", [pay, many])
def test_what_ones_own_codec_cannot_send_fails_the_call(function: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match=r"'shop\.pay'.*the arguments cannot travel") as caught:
        own(function).encode([object()], {})
    assert caught.value.__cause__ is not None


def test_a_codec_that_does_not_make_bytes_fails_the_call() -> None:
    class Text(Spelled):
        name = "text"

        def encode(self, value: Any) -> Any:
            return repr(value)

    signature = Signature(pay, "shop.pay", Context, form=own_form(Text()))
    with pytest.raises(ArgumentError, match="codec 'text' made str of it, not bytes"):
        signature.encode([5], {})


def test_arguments_are_read_by_the_codec_that_they_came_by() -> None:
    signature = own(pay)
    assert signature.content == "application/x-spelled"
    assert signature.of_content(signature.content) is signature
    for form in FORMS.values():
        sent = Signature(pay, "shop.pay", Context, form=form)
        reads = signature.of_content(sent.content)
        assert reads.decode(sent.encode([5], {"note": "x"})) == ((5, None), {"note": "x"})
        assert signature.of_content(sent.content) is reads
    assert there_and_back(signature, 5) == ((5,), {})


def test_a_content_type_is_known_by_its_other_names() -> None:
    signature = plain(pay)
    assert signature.of_content("application/json; charset=utf-8") is signature.of_content(JSON)
    assert signature.of_content("application/x-msgpack").content == ""


def test_arguments_of_a_codec_that_the_task_does_not_have_are_unknown() -> None:
    with pytest.raises(UnknownContent, match=r"'application/x-spelled', .*'shop\.pay' cannot read"):
        plain(pay).of_content("application/x-spelled")


@pytest.mark.parametrize("form", [by_json, own])
def test_in_a_flow_arguments_travel_as_messagepack(form: Callable[..., Signature]) -> None:
    signature = form(pay)
    whole, after_first = signature.encode_call([], {"note": "x"})
    assert whole is None
    assert after_first == codec.encode({"note": "x"})
    fed = signature.of_content("").decode_with_first(after_first, codec.encode(5))
    assert fed == ((5, None), {"note": "x"})
    whole, after_first = signature.encode_call([5], {})
    assert whole == signature.encode([5], {})
    assert after_first == codec.encode({"line": 5})


def test_in_a_flow_any_arguments_travel_as_messagepack() -> None:
    _, after_first = own(many).encode_call([2, 3], {})
    assert after_first == codec.encode({"*": [2, 3]})


def test_what_messagepack_cannot_carry_is_no_part_of_a_flow() -> None:
    def add(one: complex, other: complex = 0j) -> None: ...

    signature = own(add)
    assert signature.encode_call([2j], {}) == (signature.encode([2j], {}), None)
    assert signature.encode_call([], {"one": 2j}) == (signature.encode([2j], {}), None)
    with pytest.raises(ArgumentError, match="missing a required argument"):
        signature.encode_call([], {"other": 2j})


def test_calls_that_mean_the_same_have_one_fingerprint_by_ones_own_codec_too() -> None:
    signature = own(turn)
    same = [
        signature.fingerprint([2j, {1}], {}, False),
        signature.fingerprint([2j], {"steps": {1}}, False),
        signature.fingerprint([2j, {1}, None], {}, False),
    ]
    assert len(set(same)) == 1
    assert same[0] != signature.fingerprint([3j, {1}], {}, False)
    assert same[0] != signature.fingerprint([{1}], {}, True)


def test_the_largest_argument_is_not_known_by_ones_own_codec() -> None:
    assert own(pay).largest([5], {"note": "x" * 100}) is None
    assert by_json(pay).largest([5], {"note": "x" * 100}) == "note"


def test_any_annotation_will_do_for_ones_own_codec() -> None:
    def turned(by: complex) -> None: ...

    for form in (plain, by_json):
        with pytest.raises(ConfigError, match=r"'shop\.pay': its annotations cannot travel"):
            form(turned)
    assert there_and_back(own(turned), 2j) == ((2j,), {})


def test_a_first_argument_of_any_type_leaves_the_others_as_they_are() -> None:
    signature = plain(pay)
    other = signature.with_any_first()
    assert other.decode(codec.encode(["five"])) == (("five", None), {"note": "-"})
    with pytest.raises(Misfit, match="argument 'line'"):
        other.decode(codec.encode(["five", 7]))
    with pytest.raises(Misfit, match="argument 'amount'"):
        signature.decode(codec.encode(["five"]))


def test_the_first_argument_is_known_by_name_type_and_place() -> None:
    def nothing(ctx: Context) -> None: ...
    def named(*, amount: int) -> None: ...
    def second(ctx: Context, amount: int, note: str = "-") -> None: ...
    def any_more(first: int, *rest: int) -> None: ...
    def batch(lines: list[Line]) -> None: ...

    made = [plain(each) for each in (nothing, named, second, any_more)]
    made.append(Signature(batch, "shop.pay", Context, batched=True))
    assert [(each.first_name, each.first, each.takes) for each in made] == [
        ("", Any, 0), ("amount", Any, 0), ("amount", int, 2), ("first", Any, 2), ("lines", Line, 1),
    ]  # fmt: skip


def test_a_function_is_async_and_so_is_an_object_with_an_async_call() -> None:
    class Waits:
        async def __call__(self) -> None: ...

    async def waits() -> None: ...

    assert is_async(waits)
    assert is_async(Waits())
    assert not is_async(pay)
    assert not is_async(5)
