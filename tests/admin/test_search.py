"""Finding jobs by a text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headrace.admin.bodies import opened
from headrace.admin.search import Search
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope

RANDOM = "01a1de95-4479-7107-97f1-0cd58b08d0d7"


def found(text: str, *arguments: Any, id: str = RANDOM) -> bool:
    job_id = ids.to_id(id)
    envelope = encode_envelope(job_id, "send", msgspec.msgpack.encode(arguments))
    return Search.of(text).finds(job_id, opened(envelope), b"")


@pytest.mark.parametrize("text", [RANDOM, RANDOM.upper(), RANDOM[:8], "01A1DE95-44"])
def test_a_random_id_is_found_whole_or_by_its_beginning(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ["01a1de9", "7107", "0cd58b08d0d7", RANDOM[1:]])
def test_a_random_id_is_not_found_by_a_part_of_it(text: str) -> None:
    assert not found(text)
    assert not found(text, id="2f1d6a34-7b7e-4d2b-8f5e-0d1c9a7be6f1")


def test_an_id_that_someone_chose_is_found_by_any_part_of_it() -> None:
    assert found("4711", id="Invoice-4711")
    assert not found("4712", id="Invoice-4711")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("C:\\temp", "c:\\TEMP\\a.txt"),
        ("it's", ["it's"]),
        ('say "no"', 'they say "no" again'),
        ("one\ntwo", {"text": "one\ntwo"}),
        ("a\tb", "a\tb"),
        ("Straße", "STRASSE"),
        ("customer", {"Customer": 1}),
        ("4711", {"customer": 4711}),
        ("1.5", 1.5),
        ("null", None),
        ("true", {"paid": True}),
        ('"paid": true', {"paid": True}),
        ("[1, 2]", [1, 2]),
        ("c:\\\\temp", "C:\\temp"),
        ("some bytes", b"some bytes"),
        ("2026-01-31T", datetime(2026, 1, 31, tzinfo=UTC)),
        ("\x01", "a\x01b"),
    ],
)
def test_arguments_are_found_as_they_are_and_as_pages_show_them(text: str, argument: Any) -> None:
    assert found(text, "first", argument)
    assert not found(text, "first", "another")


def test_a_line_end_is_not_taken_for_a_letter() -> None:
    assert not found("nb", "a\nb")


def test_values_that_are_deep_or_of_odd_types_do_no_harm() -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]
    assert found("end", deep)
    assert not found("other", deep, {b"bytes": {1: "one"}}, float("nan"))
    assert found("one", {b"bytes": 1, 2: {1: "one"}})
