"""What the executor asks of whoever records deliveries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.core.outcome import Outcome
from headrace.worker.run import Run


class Recording(Protocol):
    """Has deliveries recorded when their outcomes are known, before these are settled. Must not
    fail, nor be ended by a cancellation."""

    def attach(self, judge: Callable[[Run, BaseException], Outcome]) -> None:
        """How to find the outcome of a delivery that fails because it could not be recorded."""
        ...

    async def outcomes(self, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Record runs; what is to be settled."""
        ...
