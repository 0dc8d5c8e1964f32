"""Reads the backlog for a process that does no work itself, from a thread with its own event
loop."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.core.workers import SUPERVISORS, Scaled, SupervisorRecord, encode_record
from headrace.errors import StoreError
from headrace.worker.upkeep.workload import Workload, WorkloadSurvey, take_survey

if TYPE_CHECKING:
    from headrace.worker.app import WorkerApp

log = logging.getLogger("headrace.supervisor")

_LEAVE_GRACE = 5.0


class Gauge:
    """Takes a survey every `poll` seconds. While the store is away there is none, which is logged
    once; that is never taken for an empty backlog."""

    def __init__(self, app: WorkerApp, workloads: Sequence[Workload], poll: float) -> None:
        self._app = app
        self._workloads = workloads
        # Threads and processes are not beside the slots.
        self.slots_each = sum(one.each for one in workloads if one.runner == "loop")
        self._poll = poll
        self._surveys: queue.SimpleQueue[WorkloadSurvey | None] = queue.SimpleQueue()
        self._scaled: Scaled | None = None
        self._trouble = ""
        self._stopping = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="headrace-gauge", daemon=True)

    def start(self, wake: Callable[[], None]) -> None:
        """Begin; `wake` is called, from the thread, whenever there is something to `take`."""
        self._wake = wake
        self._thread.start()

    def take(self) -> list[WorkloadSurvey | None]:
        """What was read since the last call, the newest last; None where the store was away."""
        taken: list[WorkloadSurvey | None] = []
        while not self._surveys.empty():
            taken.append(self._surveys.get())
        return taken

    def report(self, processes: Scaled) -> None:
        """Set what is written to the store with the next survey."""
        self._scaled = processes

    def stop(self) -> None:
        """End; a store that does not answer is not waited for."""
        self._stopping.set()
        self._thread.join(_LEAVE_GRACE)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            while True:
                self._surveys.put(runner.run(self._read()))
                self._wake()
                if self._stopping.wait(self._poll):
                    break
            runner.run(self._leave())

    async def _read(self) -> WorkloadSurvey | None:
        try:
            store = (await self._app.session()).store
            survey = await take_survey(store, self._workloads)
            await self._note(self._scaled)
        except StoreError as error:
            self._in_trouble(str(error))
            return None
        except Exception as error:
            self._in_trouble(repr(error))
            return None
        if self._trouble:
            log.warning("the backlog can be read again", extra={"error": self._trouble})
            self._trouble = ""
        return survey

    def _in_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning(
                "the backlog cannot be read, all stays as it is: %s",
                trouble,
                extra={"error": trouble},
            )
        self._trouble = trouble

    async def _note(self, processes: Scaled | None) -> None:
        if processes is None:
            return
        host, pid = socket.gethostname(), os.getpid()
        record = encode_record(SupervisorRecord(host, pid, processes))
        store = (await self._app.session()).store
        # It is written with every survey; gone soon after the parent is.
        ttl = max(3 * self._poll, self._app.lease)
        await store.kv_set(SUPERVISORS, f"{host}-{pid}", record, ttl=ttl)

    async def _leave(self) -> None:
        try:
            store = (await self._app.session()).store
            await store.kv_set(SUPERVISORS, f"{socket.gethostname()}-{os.getpid()}", None)
        except StoreError:
            pass
        await self._app.close()
