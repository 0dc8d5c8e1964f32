"""One write: what it knows, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.store.deaths import DeathCount
from headrace.store.sqlite.connection.signals import Notification
from headrace.store.sqlite.rows import get_or_create_queue_id, new_numbers, queue_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.constraints import Gathering
    from headrace.core.job.history_rules import HistoryRules
    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.connection.signals import Kind
    from headrace.store.values import Arrival


class Account(msgspec.Struct):
    """What a limit has let through, and whether jobs are blocked at it."""

    name: str
    passed: int
    """Jobs let through that have not begun."""
    spent_until_ms: float
    """When the burst is whole again."""
    opens_ms: int | None
    has_blocked: bool
    started: dict[int, int]
    """Starts within a window, by the length of the window in ms."""
    changed: bool = False


class Change:
    """A write to one queue, in a transaction. What follows from it is gathered here, and carried
    out by `writer.Writer`: freed lanes and used limits of this queue, arrivals at jobs of any
    queue."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        notifications: list[Notification],
        *,
        namespace: str,
        queue: str,
        now_ms: int,
        recording: bool,
        history_rules: HistoryRules,
    ) -> None:
        self.connection = connection
        self.notifications = notifications
        self.namespace = namespace
        self.queue = queue
        self.now_ms = now_ms
        self.history_rules = history_rules
        self.facts: list[tuple[Any, ...]] | None = [] if recording else None
        self.sent = 0
        """The first `sent` facts are of new jobs."""
        self.ended: tuple[int, bytes] = 0, b""
        """Facts of runs, which come first and are part of `counts` already: how many, and all of
        them encoded."""
        self.counts: dict[tuple[str, str], int] = {}
        """What is counted without a fact of its own, by task and kind."""
        self.freed_lanes: set[str] = set()
        self.accounts: dict[str, Account] = {}
        self.grown: dict[str, tuple[Gathering, bool]] = {}
        """Batches to which jobs came, by name, and whether they go at once."""
        self.arrivals: list[tuple[str, Arrival]] = []
        self.deaths = DeathCount()
        """Jobs of any queue that die of this write without a run."""
        self.family: dict[str, Change] = {queue: self}
        self._number: int | None = None

    @property
    def number(self) -> int:
        """The queue's number; 0 if nothing was ever sent to it."""
        if self._number is None:
            self._number = queue_id(self.connection, self.namespace, self.queue) or 0
        return self._number

    @number.setter
    def number(self, known: int) -> None:
        self._number = known

    def get_or_create_number(self) -> int:
        """The queue's number; a new one if it had none."""
        self._number = get_or_create_queue_id(self.connection, self.namespace, self.queue)
        return self._number

    def new_numbers(self, count: int) -> int:
        return new_numbers(self.connection, count)

    def beside(self, queue: str) -> Change:
        """The part of this write that concerns another queue."""
        if queue not in self.family:
            other = Change(
                self.connection,
                self.notifications,
                namespace=self.namespace,
                queue=queue,
                now_ms=self.now_ms,
                recording=self.facts is not None,
                history_rules=self.history_rules,
            )
            other.family, other.arrivals = self.family, self.arrivals
            other.deaths = self.deaths
            self.family[queue] = other
        return self.family[queue]

    @property
    def keeps_history(self) -> bool:
        """Whether ended jobs of this queue are kept; events are not."""
        return self.history_rules.keeps_any and "@" not in self.queue

    def notify(self, kind: Kind, job_ids: Sequence[JobId] | None = None) -> None:
        self.notifications.append(Notification(kind, self.queue, job_ids))

    def count(self, task: str, kind: str, amount: int) -> None:
        """Add to the minute's counter of this kind."""
        if self.facts is not None and amount:
            self.counts[task, kind] = self.counts.get((task, kind), 0) + amount

    def record_death(self, reason: str, job_id: JobId, task: str, why: bytes) -> None:
        """Keep that a job is dead without a run; `why` as in `Deaths`."""
        self.record("dead", job_id, task, 0, 0, 0, reason)
        self.deaths.add(self.queue, reason, task, why, job_id)

    def record(self, *fact: Any) -> None:
        """Keep a fact: its kind, the job's id, and further fields of `Fact`."""
        if self.facts is not None:
            self.facts.append(fact)
