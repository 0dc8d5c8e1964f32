"""How the queues of one worker share its reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.shares import shares, still_behind

if TYPE_CHECKING:
    from headrace.core.job.delivery import LeasedDelivery

Share = tuple[str, int]
"""A queue, and how many jobs may be taken from it at most."""


class SharePolicy(Protocol):
    def shares(self, limit: int) -> list[Share]:
        """How many to take from each queue, in order; a queue may come again, for what others
        leave."""
        ...

    def took(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """Report what the last shares brought."""
        ...


def share_policy(queues: Mapping[str, int] | Sequence[str], *, strict: bool) -> SharePolicy:
    """The way to share that `Store.consumer` describes."""
    if strict:
        return InOrder(list(queues))
    if isinstance(queues, Mapping) and len(queues) > 1:
        return ByWeight(queues)
    return InTurn(list(queues))


class InOrder:
    """Each queue gets only what those before it leave."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    def shares(self, limit: int) -> list[Share]:
        return [(queue, limit) for queue in self._queues]

    def took(self, deliveries: Sequence[LeasedDelivery]) -> None:
        pass


class InTurn(InOrder):
    """Another queue comes first each time, so one that is never empty starves no other. Enough for
    the shards of a log, and cheaper than a part of each read for each of them."""

    def shares(self, limit: int) -> list[Share]:
        self._queues = [*self._queues[1:], self._queues[0]]
        return super().shares(limit)


class ByWeight:
    """Each queue in proportion to its weight; what one does not need goes to the others."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._queues, self._weights = list(weights), list(weights.values())
        # How far each queue is behind its part, so that small reads add up to it.
        self._behind = [0.0] * len(weights)

    def shares(self, limit: int) -> list[Share]:
        parts = shares(limit, self._weights, self._behind)
        own = sorted(zip(self._queues, parts, strict=True), key=lambda share: -share[1])
        return own + [(queue, limit) for queue, _ in own]

    def took(self, deliveries: Sequence[LeasedDelivery]) -> None:
        came = Counter(delivery.queue for delivery in deliveries)
        parts = (len(deliveries) * weight / sum(self._weights) for weight in self._weights)
        self._behind = [
            still_behind(behind, part, came[queue])
            for queue, behind, part in zip(self._queues, self._behind, parts, strict=True)
        ]
