"""How other workers declare the tasks of this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.workers import COUNTS_ON, ENDED, WORKERS, WorkerRecord, decode_record
from headrace.errors import StoreError

if TYPE_CHECKING:
    from headrace.store.contract import Store


class OtherDeclarations:
    """Knows the declarations of workers that are registered, and for a minute of those that were.
    One for a worker. The registry is read when somebody asks, and never else."""

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store, self._now_ms = store, now_ms
        self._seen: dict[str, tuple[WorkerRecord, int]] = {}
        """The last record of each worker, and until when it counts."""
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")

    async def may_have(self, queue: str, task: str, mark: bytes) -> bool:
        """Whether a worker of this queue declares the task otherwise than `mark` says, or may do
        so: the store, or a worker of an older Headrace, may not tell."""
        if self._has(queue, task, mark):
            return True
        try:
            await self._read()
        except StoreError:
            return True
        return self._has(queue, task, mark)

    def _has(self, queue: str, task: str, mark: bytes) -> bool:
        now_ms = self._now_ms()
        return any(
            now_ms <= until_ms
            and queue in record.queues
            and record.tasks.may_declare_otherwise(task, mark)
            for record, until_ms in self._seen.values()
        )

    async def _read(self) -> None:
        """Read the registry. All who come while it is being read share the next time: a worker that
        they may need can have begun after the present one."""
        came = time.monotonic()
        async with self._reading:
            if self._read_at >= came:
                return
            began = time.monotonic()
            registered = await self._store.kv_all(WORKERS)
            ended = await self._store.kv_all(ENDED)
            self._read_at = began
        now_ms = self._now_ms()
        until_ms = now_ms + int(COUNTS_ON * 1000)
        for name, data in registered.items():
            if (record := decode_record(data)) is not None:
                self._seen[name] = record, until_ms
        for name, data in ended.items():
            if (record := decode_record(data)) is not None:
                # For now: the store keeps it for as long as it counts.
                self._seen.setdefault(name, (record, now_ms))
        self._seen = {name: each for name, each in self._seen.items() if each[1] >= now_ms}
