"""Sentences about what cannot work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.job.retry import Retry
from headrace.core.wrong_use import (
    checks_options,
    foreign_names,
    kind_of,
    needs_async_with,
    not_awaitable,
    shown,
    unknown_option,
    with_article,
)
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    "said",
    [
        "an int", "a str", "an object", "a UUID", "a User", "a Union", "a URL", "an Upload",
        "an HTTPError", "an OrderedDict", "a Headrace", "a float", "an ExceptionGroup", "a utf8",
    ],
)  # fmt: skip
def test_an_article_goes_by_the_sound_of_the_name(said: str) -> None:
    assert with_article(said.split()[1]) == said


def test_a_value_is_named_without_its_content() -> None:
    assert kind_of(5) == "an int"
    assert kind_of(None) == "None"
    assert kind_of(ConfigError) == "the class ConfigError"


def test_functions_and_classes_are_shown_by_their_names() -> None:
    assert shown(test_functions_and_classes_are_shown_by_their_names).startswith("the function te")
    assert shown(ConfigError) == "the class ConfigError"
    assert shown("text") == "'text'"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("countdown", "it() has no 'countdown': write delay=…"),
        ("quue", "it() has no 'quue': did you mean 'queue'?"),
        ("colour", "it() has no 'colour'; it takes delay, queue"),
    ],
)
def test_an_option_that_is_not_there_is_refused_with_what_to_write(name: str, said: str) -> None:
    error = unknown_option("it()", name, ["queue", "delay"], {"countdown": "write delay=…"})
    assert str(error) == said


def test_what_to_write_has_the_value_that_was_given() -> None:
    hints = {"countdown": lambda value: f"write delay={value}"}
    assert str(unknown_option("it()", "countdown", [], hints, 5)).endswith(": write delay=5")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_retries": 7}, "write Retry(8): the number counts all runs, the first too"),
        ({"max": True}, "write Retry(4) for three retries: the number counts all runs, the first"),
        ({"attempts": 7}, "write Retry(7): the number counts all runs"),
    ],
)
def test_a_number_of_retries_becomes_one_of_runs(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Retry(**given)


@checks_options("open()", {"broker": "write url=…"})
def opened(url: str, *, fast: bool = False) -> tuple[str, bool]:
    return url, fast


@checks_options("loose()")
def loose(*, fast: bool = False, **others: int) -> dict[str, int]:
    return others


def test_a_call_that_fits_goes_through() -> None:
    assert opened("a", fast=True) == ("a", True)
    assert loose(anything=1) == {"anything": 1}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it("a", broker="b"), "open() has no 'broker': write url=…"),
        (lambda it: it("a", fats=True), "open() has no 'fats': did you mean 'fast'?"),
        (lambda it: it(), "open(): missing a required argument: 'url'; it takes url, fast"),
        (lambda it: it("a", "b"), "open(): too many positional arguments; it takes url, fast"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_a_sentence(
    call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        call(opened)


@not_awaitable("write run()")
@needs_async_with("thing", "or leave it out")
@foreign_names({"delay": "write `task.enqueue()`", "kept": "never said"}, "task")
class Thing:
    kept = 5

    def __init__(self) -> None:
        self.__name__ = "add"


def test_a_name_of_another_library_is_explained_and_stays_unknown() -> None:
    thing: Any = Thing()
    with pytest.raises(AttributeError, match=re.escape("Thing has no 'delay': write `add.enqueue")):
        thing.delay(1)
    with pytest.raises(AttributeError, match=re.escape("write `task.enqueue()`")):
        _ = Thing.delay  # type: ignore[attr-defined]
    assert not hasattr(thing, "delay")
    assert "delay" not in dir(thing)
    assert thing.kept == 5


async def test_a_plain_with_or_an_await_is_explained() -> None:
    thing: Any = Thing()
    with pytest.raises(ConfigError, match=r"async with thing.*or leave it out"), thing:
        pass
    with pytest.raises(ConfigError, match="write run"):
        await thing
