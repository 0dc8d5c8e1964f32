"""What is printed cannot steer a terminal, and is what programs expect."""

from __future__ import annotations

import json
import sys
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


HEADINGS = ("queue", "id", "task", "attempts", "error")
ID = "01a1f07c-1e90-77f3-b056-1ff0da970035"


def set_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output goes to a terminal of 60 columns."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_columns_that_a_terminal_has_no_room_for_go_below_the_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_terminal(monkeypatch)
    table(HEADINGS, [("mail", ID, "send_the_invoice", 3, "refused"), ("mail", "2", "send", 12, "")])
    assert capsys.readouterr().out.splitlines() == [
        "QUEUE  ID",
        "    TASK              ATTEMPTS  ERROR",
        f"mail   {ID}",
        "    send_the_invoice         3  refused",
        "mail   2",
        "    send                    12",
    ]


def test_a_table_that_fits_the_terminal_has_a_line_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_terminal(monkeypatch)
    table(("queue", "id"), [("mail", "x" * 53)])
    assert capsys.readouterr().out.splitlines() == ["QUEUE  ID", f"mail   {'x' * 53}"]


def test_a_cell_wider_than_the_terminal_is_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_terminal(monkeypatch)
    long_id = "i" * 70
    table(("queue", "id", "error"), [("mail", long_id, "word " * 20), ("data", "1", "word " * 200)])
    shown = capsys.readouterr().out.splitlines()
    assert shown[:5] == ["QUEUE", "    ID", "    ERROR", "mail", f"    {long_id}"]
    assert " ".join(shown[5:7]).split() == ["word"] * 20
    assert len(shown) == 13, "four lines of the last one"
    assert shown[-1].endswith("word …")
    assert all(len(line) <= 60 for line in shown if long_id not in line)


def test_without_a_terminal_lines_stay_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table(HEADINGS, [("mail", ID, "send_invoice", 3, "word " * 20)])
    assert len(capsys.readouterr().out.splitlines()) == 2


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
