"""Runs that a test lets go wrong: their worker dies, or loses its lease."""

from __future__ import annotations

import threading
from typing import Literal

from headrace.core.bounds import check_count
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)
from headrace.core.job.state import REFUSED
from headrace.errors import ConfigError
from headrace.store.contract import Settlement
from headrace.testing.drain.hand_loop import Wanted

Point = Literal["before run", "after run", "during run"]
# Whether a function has run when this is its outcome.
_HAS_RUN: dict[type[Outcome], bool] = {
    Done: True,
    Retried: True,
    Dead: True,
    Cancelled: True,
    Held: False,
    Released: False,
    Left: False,
}


class _RunFault:
    def __init__(self, point: Point, concerns: Wanted, times: int, said: str) -> None:
        self.point, self.concerns, self.left, self.said = point, concerns, times, said
        self.has_struck = False


class RunFaults:
    """Which of the next runs go wrong, and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coming: list[_RunFault] = []

    def add(self, point: Point, concerns: Wanted, times: int, said: str) -> None:
        check_count(f"{said}: times", times)
        with self._lock:
            self._coming.append(_RunFault(point, concerns, times, said))

    def take(self, point: Point, delivery: LeasedDelivery) -> bool:
        """Whether this delivery goes wrong at this point."""
        if not self._coming:
            return False
        with self._lock:
            for fault in self._coming:
                if fault.point == point and fault.concerns(delivery):
                    fault.left, fault.has_struck = fault.left - 1, True
                    if not fault.left:
                        self._coming.remove(fault)
                    return True
        return False

    def forget(self) -> None:
        """Expect none of them any more."""
        self._coming.clear()

    def crashes(self, item: Settlement) -> bool:
        """Whether the worker dies before this is written. It does not if it refused to run it."""
        outcome = item.outcome
        if isinstance(outcome, Dead) and outcome.reason in REFUSED:
            return False
        return _HAS_RUN[type(outcome)] and self.take("after run", item.delivery)

    @property
    def left(self) -> list[str]:
        """The faults that have not happened, not even once."""
        return [fault.said for fault in self._coming if not fault.has_struck]


def point_of(before: str | None, after: str | None) -> tuple[Point, str]:
    """Where `crash` strikes, and how it was said."""
    if before is not None and after is not None:
        raise ConfigError("crash() takes before= or after=, not both")
    if before is None:
        after = "run" if after is None else after
    said = f"crash({f'after={after!r}' if before is None else f'before={before!r}'})"
    points: dict[tuple[str | None, str | None], Point] = {
        ("run", None): "before run",
        (None, "fetch"): "before run",
        (None, "run"): "after run",
        ("settle", None): "after run",
    }
    try:
        return points[before, after if before is None else None], said
    except KeyError:
        raise ConfigError(
            f"{said}: use before='run', when its worker has the job but has not begun it, or "
            "after='run', when the function has ended and nobody knows"
        ) from None
