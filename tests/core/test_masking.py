"""What is hidden is found in texts, whole and in pieces."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.core.masking import ALL_HIDDEN, Masks, hidden_in

CARD = "4929-1188-2277-8810"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("no such card", "no such card"),
        (f"card {CARD} is gone", "card *** is gone"),
        (f"{CARD}{CARD}", "***"),
        (f"({CARD})", "(***)"),
        ("input_value='4929-1188-22...277-8810'", "input_value='***...***'"),
        ("input_value='4929-1...8810'", "input_value='***...***'"),
        ("it was 4929-1188", "it was ***"),
        ("cut at the end: 4929-", "cut at the end: ***"),
        ("8810: cut at the start", "***: cut at the start"),
    ],
)
def test_a_hidden_value_is_masked_whole_and_in_pieces(text: str, shown: str) -> None:
    assert Masks([CARD]).text(text) == shown


@pytest.mark.parametrize(
    ("hidden", "text"),
    [
        ("Top Secret Name", "top secret name was TOP SECRET NAME"),
        ("two\nlines of it", r"'two\nlines of it'"),
        ('it\'s "quoted" so', 'it\'s \\"quoted\\" so'),
        ("k\u00e4se \u20ac 12345", r"k\u00e4se \u20ac 12345"),
        ("a b/c&d?e=f", "a%20b%2Fc%26d%3Fe%3Df a+b%2Fc%26d%3Fe%3Df a%20b/c%26d%3Fe%3Df"),
        ("\u0130stanbul-secret", "\u0130stanbul-secret"),
    ],
)
def test_a_hidden_value_is_found_however_it_is_quoted(hidden: str, text: str) -> None:
    masked = Masks([hidden]).text(text)
    assert "***" in masked
    for piece in ("secret", "lines", "quoted", "123", "26d"):
        assert piece not in masked.lower()


@pytest.mark.parametrize(
    ("hidden", "text", "shown"),
    [
        ("42", "42 of 4200, 1.42", "*** of 4200, 1.***"),
        ("pin1", "mypin12", "my***2"),
        ("x", "x y x", "x y x"),
        ("", "nothing", "nothing"),
    ],
)
def test_short_values_are_masked_as_words(hidden: str, text: str, shown: str) -> None:
    assert Masks([hidden]).text(text) == shown


def test_blanks_of_a_hidden_text_do_not_mask_every_margin() -> None:
    masks = Masks(["{\n          'a': 1234567\n}"])
    assert masks.text("          raise ValueError") == "          raise ValueError"


def test_what_is_hidden_is_what_is_not_shown() -> None:
    given = {"name": "bob", "card": CARD, "more": [12345, b"\x01key", None, True, {"o-1": "n"}]}
    shown = {"name": "bob", "card": "***", "more": []}
    hidden = hidden_in(given, shown)
    assert {CARD, "12345", "\\x01key", "n", "o-1"} <= set(hidden)
    assert not {"bob", "name", "card", "None", "True"} & set(hidden)
    assert hidden_in(given, given) == []


def test_times_are_hidden_as_they_are_written() -> None:
    at = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    assert Masks(hidden_in([at], [])).text(f"born {at}, {at.isoformat()}") == "born ***, ***"


def test_names_are_replaced_if_anything_is_hidden() -> None:
    masks = Masks([CARD], salt=b"one")
    assert masks.name("ann") == masks.name("ann") != masks.name("bob")
    assert "ann" not in masks.name("ann")
    assert Masks([CARD], salt=b"two").name("ann") != masks.name("ann")
    assert Masks().name("ann") == "ann"


def test_no_text_is_shown_if_too_much_is_hidden() -> None:
    masks = Masks([f"value-{number:06d}" for number in range(30_000)])
    assert masks.text("anything") == ALL_HIDDEN
    assert Masks(["x" * 300_000]).text("anything") == ALL_HIDDEN
    assert Masks(everything=True).text("anything") == ALL_HIDDEN


def test_a_deep_value_is_looked_into() -> None:
    deep: object = CARD
    for _ in range(100_000):
        deep = [deep]
    assert hidden_in(deep, None) == [CARD]
