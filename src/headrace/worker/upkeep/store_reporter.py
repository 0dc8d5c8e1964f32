"""How the runs of a worker reach the store: on its loop, in its threads, in its processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from headrace.core.job.ids import JobId
from headrace.errors import ConfigError, StoreUnavailable
from headrace.store.contract import Store
from headrace.worker.upkeep.progress_writer import ProgressWriter

T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
# A thread must not wait for a loop that has stopped: nobody could end the process then.
_ANSWER_GRACE = 60.0


class StoreReporters:
    """Makes the reporters of all runs of one worker; made on its event loop. A store that is away
    is asked again for as long as a lease: what is not recorded as done would be done again."""

    def __init__(self, store: Store, progress_writer: ProgressWriter, patience: float) -> None:
        self.store = store
        self.progress_writer = progress_writer
        self._patience = patience
        self._loop = asyncio.get_running_loop()

    def of(self, queue: str, job_id: JobId) -> StoreReporter:
        return StoreReporter(self, queue, job_id)

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """The store's answer, from any event loop. If the run is cancelled meanwhile, it ends after
        the answer has come."""
        work = self._persistent(question)
        if _loop_here() is self._loop:
            asking: asyncio.Future[T] = asyncio.ensure_future(work)
        else:
            asking = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            await asyncio.wait([asking])
            raise

    def ask_sync(self, question: Callable[[], Awaitable[T]]) -> T:
        """The store's answer, from a thread without an event loop."""
        if _loop_here() is self._loop:
            raise ConfigError("in an async task write `async with ctx.once(…)`, not `with`")
        work: Coroutine[Any, Any, T] = self._persistent(question)
        try:
            asking = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise StoreUnavailable("the worker has ended, and this thread outlived it") from None
        try:
            return asking.result(self._patience + _ANSWER_GRACE)
        except (TimeoutError, CancelledError):
            raise StoreUnavailable("the worker did not answer; it ends, or is blocked") from None

    async def _persistent(self, question: Callable[[], Awaitable[T]]) -> T:
        ends_at = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return await question()
            except StoreUnavailable:
                if time.monotonic() + pause > ends_at:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class StoreReporter:
    """The reporter of one run; see `headrace.client.context.RunReporter`."""

    def __init__(self, reporters: StoreReporters, queue: str, job_id: JobId) -> None:
        self._reporters = reporters
        self._queue = queue
        self._key = job_id

    def progress(self, fraction: float, text: str) -> None:
        self._reporters.progress_writer.progress((self._queue, self._key), fraction, text)

    def log(self, *lines: str) -> None:
        self._reporters.progress_writer.log((self._queue, self._key), lines)

    async def recall(self, name: str) -> bytes | None:
        return (await self._reporters.ask(self._done_once)).get(name)

    def recall_sync(self, name: str) -> bytes | None:
        return self._reporters.ask_sync(self._done_once).get(name)

    async def remember(self, name: str, value: bytes) -> None:
        await self._reporters.ask(lambda: self._mark_done(name, value))

    def remember_sync(self, name: str, value: bytes) -> None:
        self._reporters.ask_sync(lambda: self._mark_done(name, value))

    async def _done_once(self) -> dict[str, bytes]:
        return await self._reporters.store.once_all(self._queue, self._key)

    async def _mark_done(self, name: str, value: bytes) -> None:
        await self._reporters.store.once_set(self._queue, self._key, name, value)
