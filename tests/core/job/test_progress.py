"""How far a job is: what it may say, and how that is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.core.job.progress import (
    MAX_LINE,
    Progress,
    check_fraction,
    check_text,
    clean_line,
    decode_progress,
    encode_progress,
)
from headrace.errors import ConfigError


def test_what_was_said_is_read_back() -> None:
    said = Progress(0.25, "a quarter", 1_000)
    assert decode_progress(encode_progress(said)) == said
    assert said.at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("odd", [b"", b"\xc1", b"\x91\xa1x", b"\x92\x00\xa1\xff", b"\x91" * 2000])
def test_what_cannot_be_read_was_not_said(odd: bytes) -> None:
    assert decode_progress(odd) is None


def test_a_fraction_is_from_nought_to_one() -> None:
    assert [check_fraction(each) for each in (0, 0.5, 1)] == [0.0, 0.5, 1.0]
    assert [check_fraction(each) for each in (1 + 1e-9, -1e-12)] == [1.0, 0.0]


@pytest.mark.parametrize("odd", [-0.1, 1.1, float("nan"), True, "half", None])
def test_anything_else_is_refused_by_name(odd: object) -> None:
    with pytest.raises(ConfigError, match=r"progress\(\) takes a number from 0 to 1, not"):
        check_fraction(odd)


def test_a_line_is_cut_and_made_fit_to_be_stored() -> None:
    assert clean_line(7) == "7"
    assert clean_line("naïve \ud800") == "naïve ?"
    long = clean_line("x" * 10_000)
    assert len(long) == MAX_LINE
    assert long.endswith("… (cut: 10,000 characters)")


def test_a_text_is_a_text() -> None:
    assert check_text("half") == "half"
    with pytest.raises(ConfigError, match=r"not 5: for 1 of 5, say progress\(1 / 5\)"):
        check_text(5)
