"""Waits for jobs to end: listens for notifications of the store, and polls in case one is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from headrace.core.job.ids import JobId
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import JobSnapshot, ListenerHandle, Store

_POLL_FIRST = 0.25
_POLL_MOST = 5.0
# After the last wait, keep listening for a while: the next one often comes soon.
_LINGER = 5.0
_LOOK_TOGETHER = 500

SnapshotFuture = asyncio.Future[JobSnapshot | None]


class Waiter:
    """One event loop's waiting for results."""

    def __init__(self, store: Store, max_reconnect: float | None = None) -> None:
        self._store = store
        self._max_reconnect = max_reconnect
        self._queues: dict[str, _QueueWaiter] = {}

    async def wait(self, queue: str, job_id: JobId, timeout: float | None) -> JobSnapshot | None:
        """The job once it has ended, None if the store does not know it; `TimeoutError` if it takes
        longer. A job that has ended already is found even with a timeout of 0."""
        (snapshot,) = await self._store.get(queue, [job_id])
        if snapshot is None or snapshot.state.final:
            return snapshot
        waiter = self._queues.get(queue)
        if waiter is None:
            waiter = self._queues[queue] = _QueueWaiter(self._store, queue, self._max_reconnect)
        async with asyncio.timeout(timeout):
            return await waiter.wait(job_id)

    @property
    def waiting(self) -> bool:
        """Whether anyone waits for a job; from any thread."""
        return any(waiter.waiting for waiter in list(self._queues.values()))

    async def close(self) -> None:
        """End all waits, with `StoreUnavailable`."""
        queues, self._queues = self._queues, {}
        for waiter in queues.values():
            await waiter.close()


class _QueueWaiter:
    """All waits for jobs of one queue; they share one listener and their reads of the store."""

    def __init__(self, store: Store, queue: str, max_reconnect: float | None) -> None:
        self._store = store
        self._max_reconnect = max_reconnect
        self._away_since: float | None = None
        self._queue = queue
        self._waiting: dict[JobId, list[SnapshotFuture]] = {}
        self._to_look_at: set[JobId] = set()
        self._looking: asyncio.Task[None] | None = None
        self._listening: ListenerHandle | None = None
        self._subscribing = asyncio.Lock()
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    async def wait(self, job_id: JobId) -> JobSnapshot | None:
        answer: SnapshotFuture = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, []).append(answer)
        try:
            await self._listen()
            return await self._answered(job_id, answer)
        finally:
            self._forget(job_id, answer)

    async def close(self) -> None:
        for answers in self._waiting.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(StoreUnavailable("the app was closed meanwhile"))
        if self._looking is not None:
            self._looking.cancel()
        await self._stop_listening()

    async def _answered(self, job_id: JobId, answer: SnapshotFuture) -> JobSnapshot | None:
        """Notifications are best effort: without one, poll."""
        pause = _POLL_FIRST
        while True:
            self._look_for([job_id])
            done, _ = await asyncio.wait([answer], timeout=pause)
            if done:
                return answer.result()
            pause = min(pause * 2, _POLL_MOST)

    def _on_finished(self, job_ids: Sequence[JobId] | None) -> None:
        self._look_for(self._waiting if job_ids is None else self._waiting.keys() & set(job_ids))

    def _look_for(self, job_ids: Collection[JobId]) -> None:
        """Read these jobs soon; all that are asked for during a read share the next."""
        self._to_look_at.update(job_ids)
        if self._to_look_at and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look(), name="headrace-waiter")

    async def _look(self) -> None:
        while self._to_look_at:
            job_ids = list(self._to_look_at)[:_LOOK_TOGETHER]
            self._to_look_at.difference_update(job_ids)
            try:
                snapshots = await self._store.get(self._queue, job_ids)
            except StoreError as error:
                # The next poll tries again.
                self._give_up_after(error)
                return
            self._away_since = None
            for job_id, snapshot in zip(job_ids, snapshots, strict=True):
                if snapshot is None or snapshot.state.final:
                    self._answer(job_id, snapshot)

    def _give_up_after(self, error: StoreError) -> None:
        """Fail all waits if the store has been away for longer than the app allows."""
        now = time.monotonic()
        self._away_since = since = now if self._away_since is None else self._away_since
        if self._max_reconnect is None or now - since < self._max_reconnect:
            return
        said = f"the store has been away for longer than max_reconnect={self._max_reconnect:g} s"
        for answer in (each for answers in self._waiting.values() for each in answers):
            if not answer.done():
                answer.set_exception(StoreUnavailable(f"{said}: {error}"))

    def _answer(self, job_id: JobId, snapshot: JobSnapshot | None) -> None:
        for answer in self._waiting.get(job_id, ()):
            if not answer.done():
                answer.set_result(snapshot)

    def _forget(self, job_id: JobId, answer: SnapshotFuture) -> None:
        answer.cancel()
        answers = self._waiting[job_id]
        answers.remove(answer)
        if not answers:
            del self._waiting[job_id]
        if not self._waiting:
            self._linger()

    async def _listen(self) -> None:
        async with self._subscribing:
            if self._listening is None:
                self._listening = await self._store.on_finished(self._queue, self._on_finished)

    def _linger(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = asyncio.get_running_loop().call_later(_LINGER, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        if not self._waiting:
            self._looking = asyncio.create_task(self._stop_listening())

    async def _stop_listening(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        async with self._subscribing:
            listening, self._listening = self._listening, None
            if listening is not None:
                await listening.close()
