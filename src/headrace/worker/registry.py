"""Lets people see this worker: who it is, where it runs, and that it lives."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version

import msgspec

from headrace.core.workers import WORKERS, Scaled, WorkerRecord, encode_record
from headrace.store.contract import Store


class Registry:
    """This worker's record in the store. It has to be written again before a lease is over, or it
    is gone: that is how a worker that died is noticed."""

    def __init__(
        self,
        store: Store,
        name: str,
        queues: Mapping[str, int],
        *,
        strict: bool,
        concurrency: int,
        lease: float,
        held: Collection[object],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._lease = lease
        self._held = held
        self._now_ms = now_ms
        self._consumers: dict[str, Scaled] = {}
        self._record = WorkerRecord(
            name=name,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=0,
            queues=dict(queues),
            concurrency=concurrency,
            version=version("headrace"),
            python=platform.python_version(),
            running=0,
            beat_ms=0,
            strict=strict,
        )

    def tell_consumers(self, subscription: str, consumers: Scaled) -> None:
        """Have the next beat say how many consumers a subscription has here."""
        # A new dict: another thread may just be writing the old one.
        self._consumers = {**self._consumers, subscription: consumers}

    async def beat(self) -> None:
        """Say that the worker lives, and what it holds; awaited from any event loop."""
        now_ms = self._now_ms()
        self._record = msgspec.structs.replace(
            self._record,
            started_ms=self._record.started_ms or now_ms,
            running=len(self._held),
            beat_ms=now_ms,
            consumers=self._consumers,
        )
        data = encode_record(self._record)
        await self._store.note(WORKERS, self._record.name, data, ttl=self._lease)

    async def leave(self) -> None:
        await self._store.note(WORKERS, self._record.name, None)
