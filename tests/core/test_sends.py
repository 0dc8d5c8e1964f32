"""What a process has sent: counted by queue, also what was refused and what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from headrace.core.job.parcel import Parcel
from headrace.core.sends import BYTES, FAILED, SENT, Sends


def parcels(*sizes: int) -> list[Parcel]:
    return [Parcel(b"%016d" % number, b"x" * size) for number, size in enumerate(sizes)]


async def answered(answer: Mapping[int, str]) -> Mapping[int, str]:
    return answer


def test_a_send_is_counted_with_its_sizes() -> None:
    sends = Sends()
    sent = sends.timed("mail", parcels(10, 100, 10), answered({0: "old", 1: "full"}), "full".__eq__)
    assert asyncio.run(sent) == {0: "old", 1: "full"}
    counts = sends.counts["mail"]
    assert (counts[SENT], counts[FAILED], counts[BYTES]) == (2, 1, 120)
    assert (counts["#64"], counts["#256"]) == (2, 1)
    assert sum(count for name, count in counts.items() if name.startswith("<")) == 1


def test_a_send_that_fails_is_counted_as_failed() -> None:
    sends = Sends()

    async def failing() -> Mapping[int, str]:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(sends.timed("mail", parcels(1, 1), failing(), bool))
    assert (sends.counts["mail"][SENT], sends.counts["mail"][FAILED]) == (0, 2)


def test_what_is_larger_than_all_buckets_is_in_the_last() -> None:
    sends = Sends()
    asyncio.run(sends.timed("@big", parcels(65 * 2**20), answered({}), bool))
    assert sends.counts["@big"][f"#{64 * 4**10}"] == 1
