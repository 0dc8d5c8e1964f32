"""Runs changes of a queue, with everything that follows from them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from headrace.store.sqlite.change import Change
from headrace.store.sqlite.gates import accounts, arrivals, routing
from headrace.store.sqlite.inspection import facts

if TYPE_CHECKING:
    import sqlite3
    from asyncio import Future
    from collections.abc import Callable

    from headrace.core.clock import Clock
    from headrace.core.job.history_rules import HistoryRules
    from headrace.store.deaths import Deaths
    from headrace.store.sqlite.connection.database import Database
    from headrace.store.sqlite.connection.signals import Notification
    from headrace.store.values import IdempotencyKey

T = TypeVar("T")


class Writer:
    """Changes queues of one namespace; records facts if `recording`."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        clock: Clock,
        *,
        recording: bool,
        history_rules: HistoryRules,
    ) -> None:
        self.database = database
        self.namespace = namespace
        self.clock = clock
        self.recording = recording
        self.history_rules = history_rules

    def change(
        self,
        queue: str,
        do: Callable[[Change], T],
        *,
        unless: Callable[[sqlite3.Connection], T | None] | None = None,
        deaths: list[Deaths] | None = None,
    ) -> Future[T]:
        """What `do` returns, once it and all that follows from it is safe on disk. If `unless`
        returns anything but None, that is the answer, and nothing is written. `deaths` has the jobs
        then that died of it without a run."""
        return self.database.write(
            lambda c, notifications: self.carry_out(c, notifications, queue, do, deaths),
            unless=unless,
        )

    async def change_once(
        self,
        queue: str,
        do: Callable[[Change], T],
        idempotency: IdempotencyKey | None,
        deaths: list[Deaths] | None = None,
    ) -> T:
        """As `change`, but a repeat gets the first answer, also if the first try was cancelled: the
        change is carried out all the same. One that failed was not applied: the database is in this
        process, so no request can be under way unknown to it."""
        if idempotency is None:
            return await self.change(queue, do, deaths=deaths)
        if not idempotency.answered:
            asked = idempotency.answer or self.change(queue, do, deaths=deaths)
            idempotency.answer = asked
            try:
                idempotency.answer = await asyncio.shield(asked)
            except Exception:
                idempotency.answer = None
                raise
            idempotency.answered = True
        answer: T = idempotency.answer
        return answer

    def carry_out(
        self,
        connection: sqlite3.Connection,
        notifications: list[Notification],
        queue: str,
        do: Callable[[Change], T],
        deaths: list[Deaths] | None = None,
    ) -> T:
        change = Change(
            connection,
            notifications,
            namespace=self.namespace,
            queue=queue,
            now_ms=self.clock.now_ms(),
            recording=self.recording,
            history_rules=self.history_rules,
        )
        result = do(change)
        _draw_consequences(change)
        if deaths is not None:
            # Replaced, not added to: what was rolled back is carried out again.
            deaths[:] = change.deaths.all
        return result


def _draw_consequences(change: Change) -> None:
    """Deliver the ends of jobs to their children, fill freed lanes, and write accounts and
    facts."""
    if change.arrivals:
        arrivals.deliver(change)
    for each in change.family.values():
        if each.freed_lanes:
            routing.refill_lanes(each)
        if each.grown:
            routing.release_batches(each)
        if each.accounts:
            accounts.close_accounts(each)
        if each.facts or each.ended[0] or each.counts:
            facts.write(each)
