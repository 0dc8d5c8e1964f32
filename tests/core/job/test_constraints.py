"""Constraints as they are stored with a job."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.job.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    Limit,
    decode_constraints,
    encode_constraints,
    read_constraints,
)


def test_a_job_without_constraints_carries_no_bytes() -> None:
    assert encode_constraints(Constraints()) == b""
    assert read_constraints(b"") == decode_constraints(b"") == NO_CONSTRAINTS


def test_all_of_them_are_read_back() -> None:
    every = Constraints(
        priority=9,
        lane="customer 7",
        width=2,
        unique="invoice",
        unique_for_ms=1_000,
        debounced=True,
        limits=(Limit("mail", 10, 60_000, 5),),
        ttl_ms=3_600_000,
    )
    assert read_constraints(encode_constraints(every)) == every


@pytest.mark.parametrize(
    "odd",
    [b"\xc1", b"\x90", msgspec.msgpack.encode({"k": [1]}), msgspec.msgpack.encode({"w": 0})],
    ids=["no MessagePack", "no map", "a lane that is no text", "no width"],
)
def test_odd_ones_are_named_by_who_wants_to_know_and_left_out_by_the_rest(odd: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_constraints(odd)
    assert decode_constraints(odd) == NO_CONSTRAINTS
