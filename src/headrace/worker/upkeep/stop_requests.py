"""Notices that a person has asked this worker to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headrace.core.job.ids import JobId
from headrace.core.workers import STOPS, decode_stop
from headrace.store.contract import ListenerHandle, Store
from headrace.worker.service import POLL, Service

log = logging.getLogger("headrace.worker")


class StopRequests(Service):
    """Stops the worker when its name is in the store's list of those that should: at a
    notification, and every few seconds."""

    name = "stop listener"

    def __init__(self, store: Store, worker: str, stop: Callable[[float | None], None]) -> None:
        super().__init__()
        self._store = store
        self._worker = worker
        self._stop_worker = stop
        self._noticed = False
        self._listening: ListenerHandle | None = None

    async def listen(self) -> None:
        self._listening = await self._store.on_kv(STOPS, self._on_change)

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening.close()

    async def step(self) -> float:
        request = (await self._store.kv_all(STOPS)).get(self._worker)
        if request is not None and not self._noticed:
            self._noticed = True
            await self._store.kv_set(STOPS, self._worker, None)
            log.warning(
                "worker %s was asked to stop: it takes no more jobs",
                self._worker,
                extra={"worker": self._worker},
            )
            self._stop_worker(decode_stop(request).drain)
        return POLL

    def _on_change(self, _: Sequence[JobId] | None) -> None:
        self.wake()
