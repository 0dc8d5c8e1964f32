"""One worker's side of the store."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.job.capacity import Capacity
from headrace.core.job.outcome import check_outcomes
from headrace.core.queue_names import group_source, is_log
from headrace.store.sqlite.gates import due_times
from headrace.store.sqlite.jobs import requeue, settlement
from headrace.store.sqlite.jobs.fetch_wait import FetchWait
from headrace.store.sqlite.jobs.starts import begin, record_starts
from headrace.store.sqlite.topics import draw, publication

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from headrace.core.job.delivery import LeasedDelivery
    from headrace.core.job.tally import Tally
    from headrace.store.contract import (
        Listener,
        ListenerHandle,
        Promotion,
        RunStart,
        Settlement,
    )
    from headrace.store.deaths import DeathListener, Deaths
    from headrace.store.sqlite.connection.signals import Kind, Notification
    from headrace.store.sqlite.jobs.claims import Claims
    from headrace.store.sqlite.jobs.queue_shares import Share, SharePolicy
    from headrace.store.sqlite.writer import Writer
    from headrace.store.values import FlowMessage, IdempotencyKey


class SqliteConsumer:
    """Fulfils `headrace.store.contract.Consumer`."""

    def __init__(
        self,
        writer: Writer,
        claims: Claims,
        queues: Sequence[str],
        share_policy: SharePolicy,
        on_deaths: DeathListener | None = None,
    ) -> None:
        self._on_deaths = on_deaths
        self.name = claims.owner
        self._writer = writer
        self._database = writer.database
        self._claims = claims
        self._queues = list(queues)
        sources = {queue: group_source(queue) for queue in queues}
        self._groups = {queue: source.log for queue, source in sources.items() if source}
        self._share_policy = share_policy
        self._waits: set[FetchWait] = set()

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        capacity = capacity or Capacity(limit, limit, limit)
        limit = min(limit, capacity.total)
        waiting = FetchWait(asyncio.get_running_loop(), wait)
        self._waits.add(waiting)
        try:
            if limit <= 0:
                await waiting.rung()
                return []
            found = await self._claim(limit, capacity)
            if found or wait <= 0:
                return found
            return await self._claim_when_ready(limit, capacity, waiting)
        finally:
            self._waits.discard(waiting)

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[LeasedDelivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[LeasedDelivery, str]:
        if not deliveries:
            return {}
        count = partial(begin, owner=self.name, deliveries=deliveries)
        return await self._writer.change_once(queue, count, idempotency)

    async def recover(self, held: Collection[LeasedDelivery]) -> list[LeasedDelivery]:
        return await self._database.read(
            lambda connection: self._claims.held_beyond(connection, self._queues, held)
        )

    async def interrupt(self) -> None:
        for waiting in list(self._waits):
            waiting.end()

    async def wake(self) -> None:
        await self.interrupt()

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[LeasedDelivery]:
        if not settlements:
            return []
        check_outcomes([each.outcome for each in settlements], settlement.KNOWN)
        # `repeat` changes nothing: what an earlier try settled is no longer held, so it is lost.
        settle = partial(
            settlement.settle,
            owner=self.name,
            settlements=settlements,
            tally=tally,
            makes_room=queue in self._claims.most,
        )
        deaths: list[Deaths] = []
        lost = await self._writer.change_once(queue, settle, idempotency, deaths)
        self._report(deaths)
        return lost

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        return delivery.ready_ms

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        if not deliveries:
            return []
        return await self._database.write(
            lambda connection, _: self._claims.extend(connection, deliveries)
        )

    async def record_starts(
        self,
        queue: str,
        starts: Sequence[RunStart],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        if self._writer.recording and starts:
            record = partial(record_starts, owner=self.name, starts=starts)
            await self._writer.change_once(queue, record, idempotency)

    async def reclaim(
        self, queue: str, limit: int, *, last_chance: bool, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        capacity = capacity or Capacity(limit, limit, limit)
        if min(limit, capacity.total) <= 0:
            return []
        take_over = partial(
            self._claims.take_over, limit=limit, capacity=capacity, last_chance=last_chance
        )
        return await self._writer.change(
            queue,
            take_over,
            unless=lambda connection: self._claims.not_yet(connection, queue),
        )

    async def promote(self, queue: str) -> Promotion:
        namespace, clock = self._claims.namespace, self._claims.clock
        deaths: list[Deaths] = []
        promotion = await self._writer.change(
            queue,
            publication.promote if is_log(queue) else due_times.promote,
            unless=lambda connection: due_times.nothing_due(
                connection, namespace=namespace, queue=queue, now_ms=clock.now_ms()
            ),
            deaths=deaths,
        )
        self._report(deaths)
        return promotion

    def _report(self, deaths: Sequence[Deaths]) -> None:
        if deaths and self._on_deaths is not None:
            self._on_deaths(deaths)

    async def flow_messages(self, queue: str, limit: int = 500) -> list[FlowMessage]:
        # All queues are in one database: ends arrive in other queues in the same transaction.
        return []

    async def ack_flow_messages(self, queue: str, messages: Sequence[FlowMessage]) -> None:
        pass

    async def on_due(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._database.listen([("due", queue)], listener)

    async def on_control(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._database.listen([("control", queue)], listener)

    async def close(self) -> None:
        await self.interrupt()
        await self._database.write(self._hand_back_all)

    async def _claim(self, limit: int, capacity: Capacity) -> list[LeasedDelivery]:
        shares = self._share_policy.shares(limit)
        deaths: list[Deaths] = []
        taken = await self._database.write(
            lambda connection, notifications: self._take(
                connection, notifications, shares, limit, capacity, deaths
            ),
            unless=partial(self._nothing_waits, capacity=capacity),
        )
        self._share_policy.took(taken)
        self._report(deaths)
        return taken

    def _take(
        self,
        connection: sqlite3.Connection,
        notifications: list[Notification],
        shares: Sequence[Share],
        limit: int,
        capacity: Capacity,
        deaths: list[Deaths],
    ) -> list[LeasedDelivery]:
        if not self._groups:
            return self._claims.take(connection, shares, limit, capacity)
        deaths.clear()

        def draw_events(queue: str, wanted: int) -> None:
            if queue in self._groups:
                of_draw: list[Deaths] = []
                self._writer.carry_out(
                    connection, notifications, queue, partial(draw.draw, wanted=wanted), of_draw
                )
                deaths.extend(of_draw)

        return self._claims.take(connection, shares, limit, capacity, draw_events)

    def _nothing_waits(
        self, connection: sqlite3.Connection, capacity: Capacity
    ) -> list[LeasedDelivery] | None:
        """An empty list if `_take` would find and write nothing."""
        if (
            self._groups
            and capacity.loop > 0
            and not draw.nothing_to_draw(
                connection,
                namespace=self._claims.namespace,
                queues=list(self._groups),
                now_ms=self._claims.clock.now_ms(),
            )
        ):
            return None
        return self._claims.nothing_waits(connection, self._queues, capacity)

    async def _claim_when_ready(
        self, limit: int, capacity: Capacity, waiting: FetchWait
    ) -> list[LeasedDelivery]:
        topics: list[tuple[Kind, str]] = [("ready", queue) for queue in self._queues]
        topics += [("ready", log) for log in self._groups.values()]
        listening = await self._database.listen(topics, waiting.ring)
        try:
            # First without waiting: a job may have come before the listener was there.
            while not (found := await self._claim(limit, capacity)) and await waiting.rung():
                pass
            return found
        finally:
            listening.stop()

    def _hand_back_all(
        self, connection: sqlite3.Connection, notifications: list[Notification]
    ) -> None:
        for queue in self._queues:
            hand_back = partial(requeue.hand_back_all, owner=self.name)
            self._writer.carry_out(connection, notifications, queue, hand_back)
