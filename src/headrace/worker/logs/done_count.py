"""Counts the jobs and events that a worker has done."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import Done
from headrace.store.contract import Settlement
from headrace.worker.consume.settler import Settled


class DoneCount:
    """What a worker has done, by the outcomes that were written."""

    def __init__(self) -> None:
        self.count = 0

    def after(self, settled: Settled) -> Settled:
        """`settled`, and then the count."""

        def both(settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
            settled(settlements, lost)
            done = [each.delivery for each in settlements if isinstance(each.outcome, Done)]
            self.count += sum(delivery not in lost for delivery in done)

        return both
