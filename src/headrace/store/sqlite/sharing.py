"""How the queues of one worker share what it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.core.delivery import Delivery

Share = tuple[str, int]
"""A queue, and how many may be taken from it at most."""


class Sharing(Protocol):
    def shares(self, limit: int) -> list[Share]:
        """In which order to take how many; a queue may come again, for what others leave."""
        ...

    def took(self, deliveries: Sequence[Delivery]) -> None:
        """Say what came of the last shares."""
        ...


def sharing(queues: Mapping[str, int] | Sequence[str], *, strict: bool) -> Sharing:
    """How these queues share reads: as `Store.consumer` says."""
    if strict:
        return InOrder(list(queues))
    if isinstance(queues, Mapping) and len(set(queues.values())) > 1:
        return ByWeight(queues)
    return InTurn(list(queues))


class InOrder:
    """Each only what those before it leave."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    def shares(self, limit: int) -> list[Share]:
        return [(queue, limit) for queue in self._queues]

    def took(self, deliveries: Sequence[Delivery]) -> None:
        pass


class InTurn(InOrder):
    """Another comes first each time, so a queue that is never empty starves no other."""

    def shares(self, limit: int) -> list[Share]:
        self._queues = [*self._queues[1:], self._queues[0]]
        return super().shares(limit)


class ByWeight:
    """Each in proportion to its weight, and what one does not need to the others."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        total = sum(weights.values())
        self._parts = {queue: weight / total for queue, weight in weights.items()}
        # What a queue is behind its part, so that small reads add up to it.
        self._behind = dict.fromkeys(weights, 0.0)

    def shares(self, limit: int) -> list[Share]:
        wanted = {queue: limit * part + self._behind[queue] for queue, part in self._parts.items()}
        first = sorted(wanted, key=lambda queue: -wanted[queue])
        own = [(queue, max(0, int(wanted[queue]))) for queue in first]
        return own + [(queue, limit) for queue in first]

    def took(self, deliveries: Sequence[Delivery]) -> None:
        counts = Counter(delivery.queue for delivery in deliveries)
        for queue, part in self._parts.items():
            behind = self._behind[queue] + len(deliveries) * part - counts[queue]
            # Bounded: a queue that was empty for long must not make the others wait for long.
            self._behind[queue] = min(1.0, max(-1.0, behind))
