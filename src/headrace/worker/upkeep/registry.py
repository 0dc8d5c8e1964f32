"""The record by which people see a worker."""

from __future__ import annotations

import heapq
import os
import platform
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from headrace.core.version import VERSION
from headrace.core.workers import (
    COUNTS_ON,
    ENDED,
    WORKERS,
    KnownTasks,
    RunRecord,
    Scaled,
    WorkerRecord,
    encode_record,
)
from headrace.store.contract import Store
from headrace.worker.run.run import Run

MOST_RUNS = 100
"""Runs in a record, which is written at every beat."""


class Registry:
    """This worker's record in the store. It expires after a lease unless it is written again: so a
    dead worker is noticed."""

    def __init__(
        self,
        store: Store,
        name: str,
        queues: Mapping[str, int],
        *,
        strict: bool,
        concurrency: int,
        threads: int,
        processes: int,
        lease: float,
        held: Collection[object],
        now_ms: Callable[[], int],
        runs: Callable[[], Iterable[Run]] = tuple,
        stopping: Callable[[], bool] = bool,
        queue_concurrency: Mapping[str, int] | None = None,
        tasks: KnownTasks | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._held = held
        self._now_ms = now_ms
        self._runs = runs
        self._stopping = stopping
        self._consumers: dict[str, Scaled] = {}
        self._record = WorkerRecord(
            name=name,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=0,
            queues=dict(queues),
            concurrency=concurrency,
            threads=threads,
            processes=processes,
            version=VERSION,
            python=platform.python_version(),
            running=0,
            beat_ms=0,
            strict=strict,
            queue_concurrency=dict(queue_concurrency or {}),
            tasks=tasks or KnownTasks(),
        )

    @property
    def consumers(self) -> dict[str, Scaled]:
        """The consumers of each subscription here, as last set."""
        return self._consumers

    def set_consumers(self, subscription: str, consumers: Scaled) -> None:
        """Set the number of consumers that a subscription has here, for the next beat."""
        # A new dict: another thread may just be writing the old one.
        self._consumers = {**self._consumers, subscription: consumers}

    def add_queues(self, queues: Iterable[str]) -> None:
        """Name more queues in the record, from the next beat on."""
        known = {**self._record.queues, **dict.fromkeys(queues, 1)}
        self._record = msgspec.structs.replace(self._record, queues=known)

    async def beat(self) -> None:
        """Write the record, with the runs of now; from any event loop."""
        now_ms = self._now_ms()
        self._record = msgspec.structs.replace(
            self._record,
            started_ms=self._record.started_ms or now_ms,
            running=len(self._held),
            beat_ms=now_ms,
            consumers=self._consumers,
            runs=_run_records(self._runs(), now_ms),
            stopping=self._stopping(),
        )
        data = encode_record(self._record)
        await self._store.kv_set(WORKERS, self._record.name, data, ttl=self._lease)

    async def remove_record(self) -> None:
        """Have people see it no more. Other workers still see for a minute what it declared."""
        record = msgspec.structs.replace(self._record, runs=())
        if record.beat_ms and record.tasks.marks:
            data = encode_record(record)
            await self._store.kv_set(ENDED, record.name, data, ttl=COUNTS_ON)
        await self._store.kv_set(WORKERS, record.name, None)


def _run_records(runs: Iterable[Run], now_ms: int) -> tuple[RunRecord, ...]:
    """The longest-running first. Runs begin and end meanwhile, in another thread."""
    now = time.monotonic()
    begun = [run for run in runs if run.started and not run.abandoned]
    return tuple(
        RunRecord(
            run.delivery.job_id,
            run.delivery.queue,
            run.envelope.task,
            now_ms - round(1000 * (now - run.started)),
        )
        for run in heapq.nsmallest(MOST_RUNS, begun, key=lambda run: run.started)
    )
