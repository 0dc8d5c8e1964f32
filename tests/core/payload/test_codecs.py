"""The codecs of tasks, and what can be read without knowing whose payload it is."""

from __future__ import annotations

import pytest

from headrace.core.payload.codecs import FORMS, MSGPACK, form_of, readable, task_form
from headrace.errors import ConfigError
from tests.core.payload.test_content import Csv


@pytest.mark.parametrize("name", ["msgpack", "json"])
def test_arguments_travel_by_a_codec_of_that_name(name: str) -> None:
    form = task_form(name)
    assert (form.name, form.is_typed) == (name, True)
    assert form.decoder(list[int])(form.encode([1, 2])) == [1, 2]


def test_arguments_travel_by_a_codec_of_ones_own() -> None:
    form = task_form(Csv())
    assert (form.name, form.on_the_wire, form.is_typed) == ("csv", "text/csv", False)
    assert form.decoder(list[int])(form.encode(["1", "2"])) == ["1", "2"]


@pytest.mark.parametrize("name", ["raw", "protobuf"])
def test_a_codec_for_events_carries_no_arguments(name: str) -> None:
    with pytest.raises(ConfigError, match=f"codec '{name}' is for events: .*'msgpack' or 'json'"):
        task_form(name)


def test_an_unknown_codec_is_refused_with_those_that_tasks_can_have() -> None:
    with pytest.raises(ConfigError, match="no codec 'yaml': use 'msgpack', 'json', or an object"):
        task_form("yaml")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("", "msgpack"),
        (MSGPACK, "msgpack"),
        ("application/x-msgpack", "msgpack"),
        ("APPLICATION/JSON ; charset=utf-8", "json"),
    ],
)
def test_a_content_type_on_the_wire_names_its_codec(content: str, name: str) -> None:
    assert form_of(content) is FORMS[name]


@pytest.mark.parametrize("content", ["text/csv", "application/octet-stream", "json"])
def test_a_content_type_that_carries_no_arguments_has_no_codec(content: str) -> None:
    assert form_of(content) is None


@pytest.mark.parametrize(
    ("content", "payload", "seen"),
    [
        ("", b"\x92\x01\xa1x", [1, "x"]),
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/json", b"{", b"{"),
        ("", b"\xc1", b"\xc1"),
        ("text/csv", b"a,b", b"a,b"),
    ],
)
def test_what_cannot_be_read_without_its_task_is_shown_as_bytes(
    content: str, payload: bytes, seen: object
) -> None:
    assert readable(content, payload) == seen
