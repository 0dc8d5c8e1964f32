"""Jobs in an SQLite file that several processes of one machine may share, or in memory."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.address import sqlite_options, sqlite_path
from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.history_rules import HistoryRules
from headrace.store.oddities import Oddities
from headrace.store.sqlite import kv
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.database import Database
from headrace.store.sqlite.connection.file import risks_of
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.gates import added_parents, flows, pauses
from headrace.store.sqlite.gates.arrivals import arrive
from headrace.store.sqlite.inspection import progress_log
from headrace.store.sqlite.inspection.reads import SqliteReads
from headrace.store.sqlite.jobs import cancellation, history_writer, insert, pruning, rescheduling
from headrace.store.sqlite.jobs.bounded import append_bounded
from headrace.store.sqlite.jobs.claims import Claims
from headrace.store.sqlite.jobs.queue_shares import share_policy
from headrace.store.sqlite.writer import Writer
from headrace.store.values import Description

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.core.clock import Clock
    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Child, Parcel
    from headrace.core.job.state import State
    from headrace.store.contract import Listener, ListenerHandle
    from headrace.store.deaths import DeathListener, Deaths
    from headrace.store.flow_values import Added, Addition
    from headrace.store.queue_values import QueueBound, Rescheduling
    from headrace.store.sqlite.change import Change
    from headrace.store.values import (
        Arrival,
        IdempotencyKey,
        JobEnding,
        Report,
    )  # fmt: skip

_END_GRACE = 5.0
_FORGETFUL = ("memory:// keeps nothing when the process ends: use sqlite:///file.db",)


class SqliteStore(SqliteReads):
    """Fulfils `headrace.store.contract.Store`. What it has answered is on disk, and survives a
    crash of the process or the machine; except with `memory://`. Without `events` it records
    none."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        crash_limit: int,
        clock: Clock,
        events: bool = True,
        history_rules: HistoryRules | None = None,
    ) -> None:
        self._path = _path(url)
        database = Database(self._path, sqlite_options(url))
        rules = history_rules or HistoryRules()
        writer = Writer(database, namespace, clock, recording=events, history_rules=rules)
        super().__init__(database, writer, namespace=namespace, clock=clock)
        self.history_rules = rules
        self._oddities = Oddities()
        self._crash_limit = crash_limit
        self._risks = _FORGETFUL if url == "memory://" else ()

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    def close_for(self, loops: Iterable[AbstractEventLoop]) -> None:
        if (thread := self._database.leave(loops)) is not None:
            thread.join(_END_GRACE)

    async def time_ms(self) -> int:
        return self._clock.now_ms()

    async def describe(self) -> Description:
        # A read, so that a file that cannot be read is reported.
        await self.queues()
        return Description("SQLite", sqlite3.sqlite_version, self._risks or risks_of(self._path))

    async def append(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        bound: QueueBound | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> dict[int, JobId]:
        if not parcels:
            return {}
        append: Callable[[Change], dict[int, JobId]]
        if bound is None or not bound.concerns(parcels):
            append = partial(insert.append, parcels=parcels, may_exist=may_exist)
        else:
            append = partial(append_bounded, parcels=parcels, may_exist=may_exist, bound=bound)
        return await self._writer.change_once(queue, append, idempotency)

    def give_up(self, idempotency: IdempotencyKey) -> None:
        """Nothing to do: the database is in this process, so every request is answered."""

    async def remove(
        self, name: str, *, force: bool = False, unused_for: float | None = None
    ) -> int | None:
        remove = partial(pruning.remove, name=name, force=force, unused_for=unused_for)
        return await self._writer.change(name, remove)

    async def cancel(
        self, queue: str, job_ids: Sequence[JobId], *, running: bool = True
    ) -> list[State | None]:
        return await self._writer.change(
            queue, partial(cancellation.cancel, job_ids=job_ids, running=running)
        )

    async def reschedule(
        self, queue: str, job_ids: Sequence[JobId], change: Rescheduling
    ) -> list[bool]:
        reschedule = partial(rescheduling.reschedule, job_ids=job_ids, to=change)
        return await self._writer.change(queue, reschedule)

    async def pause(self, queue: str, task: str = "") -> None:
        await self._writer.change(queue, partial(pauses.pause, task=task))

    async def resume(self, queue: str, task: str = "") -> None:
        await self._writer.change(queue, partial(pauses.resume, task=task))

    async def follow(
        self, queue: str, parent: JobId, children: Sequence[Child]
    ) -> JobEnding | None:
        return await self._writer.change(
            queue, partial(flows.follow, parent=parent, children=children)
        )

    async def arrive(self, queue: str, arrivals: Sequence[Arrival]) -> list[Deaths]:
        deaths: list[Deaths] = []
        await self._writer.change(queue, partial(arrive, arrivals=arrivals), deaths=deaths)
        return deaths

    async def report(self, queue: str, reports: Sequence[Report]) -> None:
        await self._writer.change(queue, partial(progress_log.report, reports=reports))

    async def once_set(self, queue: str, job_id: JobId, name: str, value: bytes) -> None:
        await self._writer.change(
            queue, partial(progress_log.once_set, job_id=job_id, name=name, value=value)
        )

    async def extend_flow(self, queue: str, job_id: JobId, flow: JobId, target: str) -> list[Child]:
        return await self._writer.change(queue, partial(added_parents.extend_flow, job_id=job_id))

    async def add_parents(self, queue: str, additions: Sequence[Addition]) -> list[Added]:
        return await self._writer.change(
            queue, partial(added_parents.add_parents, additions=additions)
        )

    async def confirm_parents(self, queue: str, additions: Sequence[Addition]) -> None:
        await self._writer.change(
            queue, partial(added_parents.confirm_parents, additions=additions)
        )

    async def arrived(self, queue: str, pairs: Sequence[tuple[JobId, JobId]]) -> list[bool]:
        return await self._find(flows.arrived, queue=queue, pairs=pairs)

    async def kv_set(
        self,
        space: str,
        name: str,
        value: bytes | None,
        *,
        ttl: float | None = None,
        expected: kv.Expected = "anything",
    ) -> bool:
        entry = kv.KvWrite(self._namespace, space, name, value, ttl, expected)
        return await self._database.write(
            lambda connection, notifications: entry.write(
                connection, notifications, self._clock.now_ms()
            )
        )

    async def record(self, space: str, name: str, value: bytes, *, keep: float, most: int) -> None:
        entry = kv.LogRecord(self._namespace, space, name, value, int(keep * 1000), most)
        await self._database.write(
            lambda connection, notifications: entry.write(
                connection, notifications, self._clock.now_ms()
            )
        )

    async def on_kv(self, space: str, listener: Listener) -> ListenerHandle:
        return await self._database.listen([("kv", space)], listener)

    async def on_reports(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._database.listen([("reports", queue)], listener)

    async def on_finished(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._database.listen([("finished", queue)], listener)

    async def replay(
        self, queue: str, job_ids: Sequence[JobId], envelopes: Sequence[bytes] = (), by: str = ""
    ) -> list[bool]:
        return await self._writer.change(
            queue, partial(insert.replay, job_ids=job_ids, envelopes=envelopes, by=by)
        )

    async def purge(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        return await self._writer.change(queue, partial(pruning.purge, job_ids=job_ids))

    async def forget(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        return await self._writer.change(queue, partial(history_writer.forget, job_ids=job_ids))

    def consumer(
        self,
        name: str,
        queues: Mapping[str, int] | Sequence[str],
        lease: float,
        *,
        strict: bool = False,
        on_deaths: DeathListener | None = None,
        concurrency: Mapping[str, int] | None = None,
    ) -> SqliteConsumer:
        claims = Claims(
            self._namespace, name, lease, self._crash_limit, self._clock, concurrency or {}
        )
        shares = share_policy(queues, strict=strict)
        return SqliteConsumer(self._writer, claims, list(queues), shares, on_deaths)


def _path(url: str) -> str:
    path = sqlite_path(url)
    return path if path == schema.MEMORY else os.path.abspath(path)
