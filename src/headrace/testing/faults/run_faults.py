"""Runs that a test lets go wrong: their worker dies, or loses its lease."""

from __future__ import annotations

import threading
from typing import Any, Literal

from headrace.client.task import Task
from headrace.client.topic.subscription import Subscription
from headrace.core.bounds import check_count
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.outcome import Cancelled, Dead, Done, Retried
from headrace.errors import ConfigError
from headrace.store.contract import Settlement

Point = Literal["before run", "after run", "during run"]
_ENDS = (Done, Retried, Dead, Cancelled)


class _RunFault:
    def __init__(self, point: Point, task: Task[..., Any] | None, times: int, said: str) -> None:
        self.point, self.task, self.left, self.said = point, task, times, said

    def concerns(self, delivery: LeasedDelivery) -> bool:
        task = self.task
        if task is None:
            return True
        if isinstance(task, Subscription):
            return delivery.queue in task.queues
        return id_and_task(delivery.envelope)[1].decode() == task.name


class RunFaults:
    """Which of the next runs go wrong, and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coming: list[_RunFault] = []

    def add(self, point: Point, task: Task[..., Any] | None, times: int, said: str) -> None:
        check_count(f"{said}: times", times)
        if task is not None and not isinstance(task, Task):
            raise ConfigError(f"{said} takes a task, not {task!r}")
        with self._lock:
            self._coming.append(_RunFault(point, task, times, said))

    def take(self, point: Point, delivery: LeasedDelivery) -> bool:
        """Whether this delivery goes wrong at this point."""
        if not self._coming:
            return False
        with self._lock:
            for fault in self._coming:
                if fault.point == point and fault.concerns(delivery):
                    fault.left -= 1
                    if not fault.left:
                        self._coming.remove(fault)
                    return True
        return False

    def forget(self) -> None:
        """Expect none of them any more."""
        self._coming.clear()

    def crashes(self, item: Settlement) -> bool:
        """Whether the worker dies before this is written."""
        return isinstance(item.outcome, _ENDS) and self.take("after run", item.delivery)

    @property
    def left(self) -> list[str]:
        """The faults that have not happened."""
        return [fault.said for fault in self._coming]


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
