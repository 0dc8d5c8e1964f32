"""What people are shown of a long history."""

from __future__ import annotations

from headrace.core.job.history import (
    NO_HISTORY,
    Attempt,
    History,
    all_attempts,
    decode_history,
    encode_history,
    is_readable_history,
    replayed_history,
    shown_attempts,
    shown_history,
    shown_lives,
)


def attempt(number: int, text: str = "no such user") -> Attempt:
    return Attempt(number, 1_000 + number, 2_000 + number, "worker-1", "ValueError", text, "")


def history(count: int, text: str = "no such user", **others: object) -> History:
    tried = tuple(attempt(number, text) for number in range(1, count + 1))
    return History(tried, count, **others)  # type: ignore[arg-type]


def test_an_ordinary_history_is_shown_whole() -> None:
    data = encode_history(history(50))
    assert shown_attempts(data) == (all_attempts(decode_history(data)), 50)
    assert shown_history(data) == decode_history(data)


def test_of_very_many_attempts_the_last_are_shown_and_the_others_counted() -> None:
    data = encode_history(history(20_000))
    shown, total = shown_attempts(data)
    assert total == 20_000
    assert [each.number for each in shown] == list(range(19_900, 20_001))
    assert shown[0].error_text == "19,900 attempts left out here: too many, or too large, to show"
    assert shown[1:] == history(20_000).attempts[-100:]
    assert shown_history(data).deliveries == 20_000


def test_attempts_that_are_too_large_alone_are_left_out() -> None:
    data = encode_history(History((attempt(1, "x" * 300_000), attempt(2)), 2))
    shown, total = shown_attempts(data)
    assert total == 2
    assert [each.error_text for each in shown] == [
        "1 attempt left out here: too many, or too large, to show",
        "no such user",
    ]


def test_attempts_from_before_a_replay_are_numbered_through() -> None:
    earlier = replayed_history(encode_history(history(10_000)), 5_000, "ann")
    again = decode_history(earlier)
    data = encode_history(History(history(3).attempts, 3, earlier=again.earlier, replayed_ms=5_000))
    shown, total = shown_attempts(data)
    assert total == 10_003
    assert [each.number for each in shown[-4:]] == [10_000, 10_001, 10_002, 10_003]
    assert [ran for _, ran in shown_lives(data)] == [10_000, 3]


def test_lives_without_end_are_not_followed() -> None:
    data = b""
    for at in range(3_000):
        data = replayed_history(data, at, "x" * 100)
    assert len(shown_lives(data)) == 100


def test_bytes_that_are_no_history_are_none_however_long() -> None:
    for data in (b"\x90" * 300_000, b"\xdd\x00\x04\x93\xe0" + b"\x90" * 300_000, b"\xc1" * 300_000):
        assert shown_history(data) is NO_HISTORY
        assert not is_readable_history(data)
        assert shown_attempts(data) == ((), 0)
