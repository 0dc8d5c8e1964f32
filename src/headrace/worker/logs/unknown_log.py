"""Warns of jobs and events that this worker's program does not know."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headrace.core.clock import to_datetime
from headrace.core.display import utc_text
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.state import Reason
from headrace.core.job.unknown import DeclaredOtherwise, NotKnownHere

if TYPE_CHECKING:
    from headrace.client.task import Task

log = logging.getLogger("headrace.worker")

_EVERY = 60.0
_KINDS = 50
_ADVICE = (
    "; if it should know the task, name its module in Headrace(include=[…]), or pass its Tasks() "
    "to app.include()"
)


class _Topic(Protocol):
    @property
    def subscriptions(self) -> Mapping[str, Task[..., Any]]: ...
    @property
    def broadcasts(self) -> Mapping[str, Task[..., Any]]: ...


class UnknownLog:
    """One for a worker. Warns of each task at once, and then each minute with the number of jobs
    that came since: each of them comes again and again. What comes after 50 tasks counts as one
    more."""

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        topics: Mapping[str, _Topic],
        fallback: Task[..., Any] | None = None,
    ) -> None:
        self._fallback = None if fallback is None else fallback.name
        self._tasks = tasks
        self._topics = topics
        self._said: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def met(self, task: str, delivery: LeasedDelivery, error: NotKnownHere, dead_ms: int) -> None:
        """A job was met, and goes back; at `dead_ms` it is dead, or goes to the fallback, if none
        knows it by then. The task of one in a newer format is empty."""
        kind, now = task, time.monotonic()
        if kind not in self._said and len(self._said) >= _KINDS:
            kind = ""
        if now < self._said.get(kind, 0.0):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._said[kind] = now + _EVERY
        unsaid = self._unsaid.pop(kind, 0)
        log.warning(
            "%s goes back for other workers, and %s if none knows it until %s: %s%s%s",
            f"{task or 'job'} {delivery.id_text}",
            self._fate(error.reason),
            utc_text(to_datetime(dead_ms)),
            error,
            self._causes(error),
            f"; {unsaid:,} more went back since the last warning" if unsaid else "",
            extra={**delivery.fields, "task": task, "reason": str(error.reason)},
        )

    def _fate(self, reason: Reason) -> str:
        if reason is Reason.UNKNOWN_TASK and self._fallback is not None:
            return f"goes to the fallback {self._fallback!r}"
        return f"is dead ({reason})"

    def _causes(self, error: NotKnownHere) -> str:
        reason = error.reason
        if reason is Reason.NEWER_FORMAT:
            return ""
        if isinstance(error, DeclaredOtherwise):
            return "; a worker that declares the task otherwise is there, or was a minute ago"
        imported = ", ".join(self._modules()) or "no module with tasks"
        advice = _ADVICE if reason is Reason.UNKNOWN_TASK else ""
        return f"; it has imported {imported}{advice}"

    def _modules(self) -> list[str]:
        """The modules that declare what this worker runs."""
        found: list[Iterable[Task[..., Any]]] = [self._tasks.values()]
        for topic in self._topics.values():
            found += [topic.subscriptions.values(), topic.broadcasts.values()]
        return sorted({task.__module__ for tasks in found for task in tasks})
