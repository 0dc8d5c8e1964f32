"""Values that jobs bring, as text."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Headrace
from headrace.admin.app import named
from headrace.web.rendering.values import as_json, format_line, format_value, tail


def test_values_are_written_like_json_with_what_is_short_on_one_line() -> None:
    value = {"user": "ada", "ids": [1, 2], "more": {"deep": [[1], {}]}, "none": None, "ok": True}
    assert format_value(value).text == (
        '{\n  "user": "ada",\n  "ids": [1, 2],\n  "more": {\n    "deep": [\n      [1],\n      {}\n'
        '    ]\n  },\n  "none": null,\n  "ok": true\n}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<script>alert(1)</script>", '"<script>alert(1)</script>"'),
        ("a\x00\x1b[2J\n", '"a\\u0000\\u001b[2J\\n"'),
        ("user\u202egpj.exe", '"user\\u202egpj.exe"'),
        ("zero\u200bwidth\ufeff", '"zero\\u200bwidth\\ufeff"'),
        ("\u3164", '"\\u3164"'),
        ("\ud800 alone", '"\\ud800 alone"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
        ("grüße 日本 🙂", '"grüße 日本 🙂"'),
        (b"\x00ab\xff", "b'\\x00ab\\xff'"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (2**64, "18446744073709551616"),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00+00:00"'),
    ],
)
def test_what_cannot_be_seen_is_written_so_that_it_can(value: Any, text: str) -> None:
    assert format_value(value).text == text


def test_a_number_of_five_thousand_digits_is_written() -> None:
    assert format_value(10**5000, None).text == hex(10**5000)


def test_a_long_value_is_cut_and_says_how_long_it_is() -> None:
    shown = format_value({"body": "x" * 1_048_576})
    assert shown.cut
    assert len(shown.text) < 10_100
    assert shown.text.endswith("x… 1,048,576 characters")
    assert format_value(b"x" * 20_000).text.endswith("… 20,000 bytes")
    assert format_value(list(range(100_000))).text.endswith("… and more")
    assert not format_value("x" * 1_048_576, None).cut


def test_escapes_do_not_make_a_cut_value_longer() -> None:
    assert len(format_value("\u202e" * 1_048_576).text) < 10_100


def test_nesting_of_any_depth_is_written_without_running_away() -> None:
    value: Any = []
    for _ in range(5_000):
        value = [value]
    assert format_value(value).cut
    assert format_value(value, None).text.count("[") == 5_001


def test_what_cannot_even_be_represented_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert format_value([Broken()]).text == "[(Broken)]"


def test_json_for_editing_means_the_same_and_can_be_seen() -> None:
    value = {"a": "x\u202e\x00\n\ud800\U000e0041 é", "b": [1, {"c": None}]}
    text = as_json(value)
    assert json.loads(text) == value
    assert all(char == "\n" or char.isprintable() for char in text)


def test_a_long_traceback_shows_its_end() -> None:
    assert tail("short") == "short"
    assert tail("x" * 20_000 + "end").startswith("20,003 characters …\n")
    assert tail("x" * 20_000 + "end").endswith("end")


def test_a_list_shows_the_beginning_on_one_line() -> None:
    assert format_line({"a": 1, "b": [{"c": 2}]}) == '{ "a": 1, "b": [ { "c": 2 } ] }'
    assert len(format_line("x" * 1_000_000)) < 240


def test_arguments_have_the_names_of_their_parameters() -> None:
    app = Headrace("memory://")

    @app.task
    async def send(to: str, subject: str = "", *, urgent: bool = False) -> None: ...

    @app.task
    async def many(first: int, *rest: int, **options: int) -> None: ...

    assert named(app, send.name, ["ada", "hi"]) == {"to": "ada", "subject": "hi"}
    assert named(app, send.name, ["hi"], lacks_first_argument=True) == {"subject": "hi"}
    assert named(app, many.name, {"first": 1, "*": [2, 3], "x": 4}) == {
        "first": 1,
        "rest": (2, 3),
        "options": {"x": 4},
    }
    assert named(app, many.name, [1, 2, 3]) == {"first": 1, "rest": (2, 3)}
    # Also what does not fit, so that a hook finds what it hides by name.
    more = named(app, send.name, ["ada", "hi", True, 4])
    assert more == {"to": "ada", "subject": "hi", "urgent": True, "*": [4]}
    assert named(app, send.name, {"to": "ada", "gone": 1}) == {"to": "ada", "gone": 1}
    assert named(app, "gone", [1]) == [1]
    assert named(app, many.name, {"*": 5}) == {"*": 5}
