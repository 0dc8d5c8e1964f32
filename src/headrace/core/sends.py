"""What this process has sent: how much, how large, how long it took. Counted only if somebody asks
for metrics."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headrace.core.job.parcel import Parcel
from headrace.core.job.tally import BUCKETS_US, RUN, RUN_US

R = TypeVar("R")

SENT, FAILED, BYTES, SIZE = "sent", "failed", "bytes", "#"
"""Names of counters. `SIZE` is the prefix of a bucket of sizes: an upper bound follows."""
SIZE_BUCKETS = tuple(64 * 4**power for power in range(11))
"""Upper bounds in bytes, to 64 MiB; larger ones count in the last one."""


class Sends:
    """Counts by destination: a queue, or the log of a topic, such as `@orders`."""

    def __init__(self) -> None:
        self.on = False
        """Whether to count; set by what shows the counts."""
        self._counts: dict[str, dict[str, int]] = {}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """A copy, from any thread."""
        return {name: counts.copy() for name, counts in self._counts.copy().items()}

    async def timed(
        self,
        destination: str,
        parcels: Sequence[Parcel],
        put: Awaitable[Mapping[int, R]],
        is_refusal: Callable[[R], bool],
    ) -> Mapping[int, R]:
        """Await a send, and count it. It may answer for a parcel, also that it was refused."""
        began, missing = time.perf_counter(), len(parcels)
        try:
            answer = await put
            missing = sum(map(is_refusal, answer.values()))
            return answer
        finally:
            self._count(destination, parcels, missing, time.perf_counter() - began)

    def _count(
        self, destination: str, parcels: Sequence[Parcel], missing: int, seconds: float
    ) -> None:
        counts = self._counts.setdefault(destination, {})

        def add(name: str, count: int) -> None:
            counts[name] = counts.get(name, 0) + count

        add(SENT, len(parcels) - missing)
        add(FAILED, missing)
        took = int(seconds * 1_000_000)
        add(f"{RUN}{_bucket(BUCKETS_US, took)}", 1)
        add(RUN_US, took)
        for parcel in parcels:
            size = len(parcel.envelope)
            add(f"{SIZE}{_bucket(SIZE_BUCKETS, size)}", 1)
            add(BYTES, size)


def _bucket(bounds: Sequence[int], value: int) -> int:
    return bounds[min(bisect_left(bounds, value), len(bounds) - 1)]
