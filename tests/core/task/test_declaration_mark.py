"""The mark of how a task takes its arguments: other where other arguments fit, and only there."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from headrace import Context, Headrace
from headrace.core.payload.codecs import form_of
from headrace.core.task.declaration_mark import MARK, mark_of
from headrace.core.task.signature import Signature


def mark(function: Callable[..., Any], **options: Any) -> bytes:
    return Signature(function, "send", Context, **options).mark


@dataclass
class Mail:
    """To one person."""

    to: str
    urgent: bool = False


class Parcel(msgspec.Struct):
    mail: Mail
    labels: frozenset[str] = frozenset({"a", "b", "c"})


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


def same_fields_elsewhere() -> type:
    @dataclass
    class Mail:
        """To several people, by now."""

        to: str
        urgent: bool = True

    return Mail


def one_field_more() -> type:
    @dataclass
    class Mail:
        to: str
        language: str
        urgent: bool = False

    return Mail


def plain(to: str, copies: int = 1) -> None: ...
def another_default(to: str, copies: int = 2) -> int | None: ...
def with_context(ctx: Context, to: str, copies: int = 1) -> None: ...
async def asynchronous(to: str, copies: int = 1) -> None: ...
def without_default(to: str, copies: int) -> None: ...
def renamed(address: str, copies: int = 1) -> None: ...
def one_more(to: str, copies: int = 1, language: str = "en") -> None: ...
def other_type(to: str, copies: str = "1") -> None: ...
def optional(to: str, copies: int | None = 1) -> None: ...
def other_order(copies: int, to: str) -> None: ...
def further(to: str, copies: int = 1, *more: str) -> None: ...
def with_mail(mail: Mail) -> None: ...
def with_parcel(parcel: Parcel) -> None: ...
def with_size(size: Size, kind: Literal["b", "a"], weight: Annotated[int, object()]) -> None: ...


def taking(kind: Any) -> Callable[..., Any]:
    def send(mail: Any) -> None: ...

    send.__annotations__["mail"] = kind
    return send


@pytest.mark.parametrize("function", [another_default, with_context, asynchronous])
def test_what_takes_the_same_arguments_has_the_same_mark(function: Callable[..., Any]) -> None:
    assert mark(function) == mark(plain)
    assert len(mark(plain)) == MARK


@pytest.mark.parametrize(
    "function",
    [without_default, renamed, one_more, other_type, optional, other_order, further, with_mail],
)
def test_what_takes_other_arguments_has_another_mark(function: Callable[..., Any]) -> None:
    assert mark(function) != mark(plain)


def test_the_fields_of_types_count_and_not_what_is_for_people() -> None:
    assert mark(taking(same_fields_elsewhere())) == mark(with_mail)
    assert mark(taking(one_field_more())) != mark(with_mail)
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Mail", to=(str, ...))
    wider = pydantic.create_model("Mail", to=(str, ...), language=(str, ...))
    assert mark(taking(model)) == mark(taking(pydantic.create_model("Mail", to=(str, ...))))
    assert mark(taking(model)) != mark(taking(wider))


def test_how_arguments_are_read_counts() -> None:
    json = form_of("application/json")
    assert json is not None
    assert mark(plain, ignores_unknown=True) != mark(plain)
    assert mark(plain, renamed={"address": "to"}) != mark(plain)
    assert mark(plain, form=json) != mark(plain)


def test_a_type_that_nobody_can_describe_has_a_mark_all_the_same() -> None:
    class Odd:
        @classmethod
        def model_json_schema(cls) -> None:
            raise RuntimeError("never")

    parameters = list(inspect.signature(with_mail).parameters.values())
    odd, other = mark_of(parameters, {"mail": Odd}), mark_of(parameters, {"mail": int})
    assert odd != other
    assert odd == mark_of(parameters, {"mail": Odd})


def test_a_task_has_it_under_all_options() -> None:
    app = Headrace("memory://")
    task = app.task(plain)
    assert task.options(delay=5).signature.mark == mark(plain)


def marks() -> str:
    return " ".join(mark(each).hex() for each in (plain, with_parcel, with_size))


def test_it_is_the_same_in_every_process() -> None:
    program = f"from {__name__} import marks; print(marks())"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == marks()
