"""What is printed cannot steer a terminal, and is what programs expect."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from headrace.cli.output import complain, harmless, harmless_lines, json_document, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 漢字", "plain, größer, 漢字"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("right\u202eleft", "right\\u202eleft"),
        ("blank\u3164letter", "blank\\u3164letter"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_lines_stay_lines() -> None:
    assert harmless_lines("one\n\ttwo\x1b[0m\n") == ["one", "    two\\x1b[0m", ""]


def test_a_complaint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("first\nsecond \x1b[31m red")
    assert capsys.readouterr().err == "headrace: first second \\x1b[31m red\n"


def test_tables_have_columns_and_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    table(("queue", "waiting"), [("mail", 7), ("a-long-name", 12345)])
    assert capsys.readouterr().out.splitlines() == [
        "QUEUE        WAITING",
        "mail               7",
        "a-long-name    12345",
    ]


def test_json_can_hold_whatever_a_job_brings(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "bytes": b"\x00\xff",
        "odd": [float("nan"), {1: "one", "two": None}, "\x9b\x1b", {3}],
    }
    json_document(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert json.loads(printed) == {
        "when": "2026-01-02T03:04:05Z",
        "bytes": "AP8=",
        "odd": [None, {"1": "one", "two": None}, "\x9b\x1b", [3]],
    }
