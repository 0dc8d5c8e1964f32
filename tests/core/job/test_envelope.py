"""The envelope on the wire, the history beside it, and the verdict at the end."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.job import ids
from headrace.core.job.capacity import RUNNERS, Runner
from headrace.core.job.envelope import (
    FORMAT,
    FORMATS,
    NO_OVERRIDES,
    Malformed,
    NewerFormat,
    Overrides,
    WireRetry,
    decode_envelope,
    encode_envelope,
    id_and_task,
    peek_id,
    runner_of,
    with_id,
)
from headrace.core.job.history import NO_HISTORY, Attempt, History, decode_history, encode_history
from headrace.core.job.retry import Retry
from headrace.core.job.state import FINAL, Reason, State
from headrace.core.job.verdict import Verdict, decode_verdict, done_verdict, encode_verdict
from headrace.errors import HeadraceError

pack = msgspec.msgpack.encode

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.integers(0, 2**53)
keys = st.binary(min_size=1, max_size=40)
retries = st.builds(
    Retry,
    st.integers(1, 1000),
    backoff=st.sampled_from(["exponential", "linear", "fixed"])
    | st.lists(st.floats(0, 1e6), min_size=1, max_size=3),
    base=st.floats(0, 1e6),
    cap=st.floats(0, 1e6),
    jitter=st.booleans(),
    on=st.lists(st.sampled_from(["app.Flaky", "OSError"])),
    never=st.lists(st.sampled_from(["app.Fatal", "ValueError"])),
)
overrides = st.builds(
    Overrides,
    headers=st.dictionaries(texts, texts, max_size=3),
    timeout=st.none() | st.floats(0, 1e9),
    retry=st.none() | retries.map(WireRetry.of),
    expires_ms=st.none() | numbers,
    sent_ms=st.none() | numbers,
)
attempts = st.builds(Attempt, numbers, numbers, numbers, texts, texts, texts, texts)
histories = st.builds(History, st.lists(attempts, max_size=4).map(tuple), numbers, numbers)
verdicts = st.builds(
    Verdict, st.sampled_from(FINAL), st.binary(max_size=20), texts, texts, texts, texts
)
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
# Bytes of all kinds, and such as begin like an envelope.
garbage = st.one_of(
    st.binary(max_size=60),
    plain.map(pack),
    st.binary(max_size=40).map(lambda rest: b"\x95\x01" + rest),
    st.binary(max_size=40).map(lambda rest: b"\x95\x01\xc4\x01k\xa1t\xc4\x00" + rest),
)


@given(keys, texts, st.binary(max_size=60), overrides)
def test_an_envelope_comes_back_as_it_was(
    key: bytes, task: str, payload: bytes, changed: Overrides
) -> None:
    envelope = decode_envelope(encode_envelope(key, task, payload, changed))
    assert (envelope.format, envelope.job_id, envelope.task) == (FORMAT, key, task)
    assert (envelope.payload, envelope.overrides) == (payload, changed)


@given(keys, st.sampled_from(RUNNERS), st.none() | overrides)
def test_an_envelope_names_the_runner_in_its_second_byte_alone(
    key: bytes, runner: Runner, changed: Overrides | None
) -> None:
    beside = NO_OVERRIDES if changed is None else changed
    data = encode_envelope(key, "add", b"\x90", beside, runner)
    assert decode_envelope(data).runner == runner == runner_of(data)
    unknown = encode_envelope(key, "add", b"\x90", beside)
    assert (data[:1] + data[2:], runner_of(unknown)) == (unknown[:1] + unknown[2:], "loop")
    assert runner_of(with_id(data, b"another")) == runner


@pytest.mark.parametrize("data", [b"", b"\x94", b"\x94\x00", b"\x94\x04", b"\x94\xff", b"{}"])
def test_bytes_that_name_no_runner_are_for_the_loop(data: bytes) -> None:
    assert runner_of(data) == "loop"


def test_a_plain_job_costs_few_bytes() -> None:
    envelope = encode_envelope(ids.new_id(), "add", pack([1, 2]))
    assert len(envelope) < 35
    assert decode_envelope(envelope).overrides == NO_OVERRIDES


@given(keys, st.binary(max_size=20), overrides, st.lists(plain, min_size=1, max_size=4))
def test_fields_that_a_newer_sender_added_are_tolerated(
    key: bytes, payload: bytes, changed: Overrides, extra: list[Any]
) -> None:
    known = msgspec.msgpack.decode(encode_envelope(key, "add", payload, changed))
    envelope = decode_envelope(pack([*known, *extra]))
    assert (envelope.job_id, envelope.payload, envelope.overrides) == (key, payload, changed)


def test_overrides_that_a_newer_sender_added_are_tolerated() -> None:
    data = pack([FORMAT, b"key", "add", b"", {"t": 5.0, "new": ["thing"]}])
    assert decode_envelope(data).overrides.timeout == 5.0


@given(st.integers(max(FORMATS.values()) + 1, 2**32), keys, st.lists(plain, max_size=20))
@example(4, b"k", [])
@example(4, b"k", ["add", b"", {}])
@example(4, b"k", list(range(20)))
@example(200, b"k", [])
def test_a_newer_format_is_told_from_garbage_and_its_key_is_known(
    newer: int, key: bytes, rest: list[Any]
) -> None:
    data = pack([newer, key, *rest])
    with pytest.raises(NewerFormat, match=f"format {newer}.*upgrade"):
        decode_envelope(data)
    assert peek_id(data) == key


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_that_never_was_is_malformed(version: int) -> None:
    with pytest.raises(Malformed):
        decode_envelope(pack([version, b"k", "add", b""]))


@given(garbage)
@example(b"")
@example(b"\xc1")
@example(b"\x91" * 5000)
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x95\x01\xc6\xff\xff\xff\xff")
@example(b"\x94\x01\xc4\x01k\xa1\xff\xc4\x00")
@example(b"\x93\x01\xc4\x01k\x81\x80\x01")
@example(b"\x93\x01\xc4\x01k\xc7\x0c\xff" + b"\xff" * 12)
def test_garbage_is_malformed_or_newer_and_nothing_else(data: bytes) -> None:
    with suppress(Malformed, NewerFormat):
        decode_envelope(data)
    assert isinstance(peek_id(data), bytes)


@given(st.binary(min_size=1, max_size=700), texts, st.binary(max_size=20))
@example(b"k" * 300, "t" * 300, b"")
@example(b"k", "t" * 40, b"")
def test_key_and_task_are_found_without_decoding(key: bytes, task: str, payload: bytes) -> None:
    envelope = encode_envelope(key, task, payload)
    assert id_and_task(envelope) == (pack(key) + pack(task), task.encode())


@given(garbage)
@example(b"\x95\x01\xc5\xff\xff")
@example(b"\x94\x01\xa3key\xa1t")
@example(b"\x94\x01\xc4\x01k\xc0")
@example(b"\x94\x01\xc4\x01k\xd9")
def test_bytes_that_are_no_envelope_have_no_more_than_they_are_made_of(data: bytes) -> None:
    named, task = id_and_task(data)
    assert named in data
    assert named.endswith(task)


@given(keys, st.binary(max_size=20), st.integers(0, 60))
def test_a_cut_envelope_is_malformed(key: bytes, payload: bytes, cut: int) -> None:
    whole = encode_envelope(key, "add", payload)
    with pytest.raises(Malformed):
        decode_envelope(whole[: min(cut, len(whole) - 1)])


def test_the_key_of_a_malformed_job_is_known_if_it_can_be() -> None:
    assert peek_id(pack([1, b"key", 5, None])) == b"key"
    assert peek_id(pack([1])) == b""
    assert peek_id(pack([1, "text", "add", b""])) == b""
    assert peek_id(pack({"key": b"key"})) == b""


def test_the_key_is_found_without_building_what_comes_after_it() -> None:
    """What is oversize must not be decoded: a byte on the wire can be a hundred in memory."""
    data = pack([1, b"key", "add", b"", [{}] * 100_000])
    tracemalloc.start()
    try:
        assert peek_id(data) == b"key"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(data)


@pytest.mark.parametrize(
    "retry",
    [
        [0, "fixed", 1.0, 1.0, True, [], []],
        [3, "fixed", -1.0, 1.0, True, [], []],
        [3, "fixed", 1.0, float("nan"), True, [], []],
        [3, [], 1.0, 1.0, True, [], []],
        [3, [-5.0], 1.0, 1.0, True, [], []],
    ],
)
def test_an_envelope_with_an_impossible_retry_policy_is_malformed(retry: list[Any]) -> None:
    with pytest.raises(Malformed, match=r"[Rr]etry"):
        decode_envelope(pack([FORMAT, b"k", "add", b"", {"r": retry}]))


@given(retries)
def test_a_retry_policy_comes_back_as_it_was(retry: Retry) -> None:
    assert WireRetry.of(retry).policy() == retry


def test_exception_classes_of_a_retry_policy_travel_by_name() -> None:
    wire = WireRetry.of(Retry(on=(ConnectionError, "app.Flaky"), never=(Malformed,)))
    assert wire.on == ("ConnectionError", "app.Flaky")
    assert wire.never == ("headrace.core.job.envelope.Malformed",)
    assert wire.policy().retries(ConnectionResetError())
    assert not wire.policy().retries(ValueError())


@given(histories)
def test_a_history_comes_back_as_it_was(history: History) -> None:
    assert decode_history(encode_history(history)) == history


@given(garbage)
@example(b"")
@example(b"\x91\x91\x97\x01\x01\x01\xa1\xff\xa0\xa0\xa0")
@example(b"\x91" * 5000)
def test_a_history_that_cannot_be_read_is_an_empty_one(data: bytes) -> None:
    assert isinstance(decode_history(data), History)
    if not data:
        assert decode_history(data) is NO_HISTORY


@given(histories, plain)
def test_a_history_with_more_than_we_know_keeps_what_we_know(history: History, extra: Any) -> None:
    known = msgspec.msgpack.decode(encode_history(history))
    assert decode_history(pack([*known, extra])) == history


@given(verdicts)
def test_a_verdict_comes_back_as_it_was(verdict: Verdict) -> None:
    assert decode_verdict(encode_verdict(verdict)) == verdict


@given(verdicts, plain)
def test_a_verdict_with_more_than_we_know_keeps_what_we_know(verdict: Verdict, extra: Any) -> None:
    known = msgspec.msgpack.decode(msgspec.msgpack.encode(verdict))
    assert decode_verdict(pack([*known, extra])) == verdict


@given(st.binary(max_size=300))
def test_the_short_form_of_done_says_the_same(value: bytes) -> None:
    verdict = Verdict(State.DONE, value)
    assert decode_verdict(done_verdict(value)) == decode_verdict(encode_verdict(verdict)) == verdict


@given(garbage)
@example(b"\x92\xa4\xff\xff\xff\xff\xc4\x00")
@example(b"\x91\xa7unknown")
@example(b"\x91" * 5000)
def test_a_verdict_that_cannot_be_read_is_an_error_of_headrace(data: bytes) -> None:
    with suppress(HeadraceError):
        decode_verdict(data)


def test_final_states_are_those_that_nothing_follows() -> None:
    assert {state for state in State if state.final} == {"done", "dead", "cancelled"}


def test_states_and_reasons_are_texts() -> None:
    assert State("running") is State.RUNNING
    assert f"{Reason.CRASH_LOOP}" == "crash_loop"
