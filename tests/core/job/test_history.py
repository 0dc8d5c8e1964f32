"""What has happened to a job so far, from before its replays too."""

from __future__ import annotations

import pytest

from headrace.core.job.history import (
    NO_HISTORY,
    Attempt,
    History,
    all_attempts,
    bounded_earlier,
    deaths,
    decode_history,
    encode_history,
    is_readable_history,
    replayed_history,
)


def failed_history(number: int, traceback: str = "") -> History:
    return History((Attempt(1, 1, 2, "wanda", "ValueError", f"no {number}", traceback),), 1)


def test_attempts_of_all_lives_are_numbered_through() -> None:
    data = b""
    for number in range(3):
        before = decode_history(replayed_history(data, 7, "ann"))
        data = encode_history(History(failed_history(number).attempts, 1, 0, before.earlier))
    every = all_attempts(decode_history(data))
    assert [each.number for each in every] == [1, 2, 3]
    assert [each.error_text for each in every] == ["no 0", "no 1", "no 2"]
    assert decode_history(replayed_history(b"", 7)) == History(replayed_ms=7)
    assert len(decode_history(replayed_history(data, 7, "ann")).attempts) == 0


def test_earlier_attempts_do_not_grow_without_end() -> None:
    data = b""
    for number in range(200):
        before = decode_history(replayed_history(data, 7, "ann"))
        mine = failed_history(number, "x" * 5_000).attempts
        data = encode_history(History(mine, 1, 0, bounded_earlier(before)))
        assert len(data) < 100_000
    every = all_attempts(decode_history(data))
    assert every[-1].error_text == "no 199"
    assert len(every) >= 10
    assert deaths(decode_history(data)) == 199


@pytest.mark.parametrize("odd", [b"\xc1", b"\x91\x00", b"\x91" * 2000])
def test_a_history_that_cannot_be_read_is_none(odd: bytes) -> None:
    assert decode_history(odd) is NO_HISTORY
    assert not is_readable_history(odd)
    assert is_readable_history(b"")
    assert is_readable_history(encode_history(failed_history(1)))
