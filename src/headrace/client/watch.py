"""Follows one job: its state, its progress, its log, as they change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import msgspec

from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.progress import Progress, decode_progress
from headrace.core.job.state import State
from headrace.errors import JobNotFound, StoreUnavailable
from headrace.store.contract import Store


class JobUpdate(msgspec.Struct, frozen=True):
    """What `job.watch()` yields whenever something has changed."""

    state: State
    """Where the job is now."""
    progress: Progress | None = None
    """The last that it reported."""
    lines: tuple[str, ...] = ()
    """Lines of the job's log since the last update."""


class JobWatch:
    """Watches one job: reads it when the store notifies of a change, and every `poll` seconds,
    because some changes are not notified, such as the start of the job."""

    def __init__(self, store: Store, queue: str, job_id: JobId, poll: float) -> None:
        self._store = store
        self._queue = queue
        self._key = job_id
        self._poll = poll
        self._changed = asyncio.Event()
        self._last: JobUpdate | None = None
        self._next_line = 0
        self._due_ms: int | None = None

    async def updates(self) -> AsyncGenerator[JobUpdate, None]:
        """The present state, then each that differs, and last the final one."""
        async with contextlib.AsyncExitStack() as stack:
            for listen in (self._store.on_reports, self._store.on_finished):
                stack.push_async_callback((await listen(self._queue, self._on_change)).close)
            while True:
                self._changed.clear()
                update = await self._look()
                if update is not None and update != self._last:
                    self._last = JobUpdate(update.state, update.progress)
                    yield update
                    if update.state.final:
                        return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await self._changed.wait()

    async def _look(self) -> JobUpdate | None:
        """The next update; None if the store does not answer, after it did before."""
        try:
            (snapshot,) = await self._store.get(self._queue, [self._key])
            if snapshot is None and (self._last is None or await self._is_early()):
                raise JobNotFound(ids.to_text(self._key))
            # After the state: if the job has ended, this is its whole log.
            page = await self._store.log(self._queue, self._key, self._next_line)
        except StoreUnavailable:
            if self._last is None:
                raise
            return None
        self._next_line = page.following
        self._due_ms = snapshot.due_ms if snapshot else None
        if snapshot is None:
            # It existed, and failed jobs are kept: it is done, and its result is not kept.
            return JobUpdate(State.DONE, None, tuple(page.lines))
        return JobUpdate(snapshot.state, decode_progress(snapshot.progress), tuple(page.lines))

    async def _is_early(self) -> bool:
        """Whether the job cannot have run yet: then it is not done, but the store has lost it."""
        return self._due_ms is not None and await self._store.time_ms() < self._due_ms

    def _on_change(self, job_ids: Sequence[JobId] | None) -> None:
        if job_ids is None or self._key in job_ids:
            self._changed.set()
