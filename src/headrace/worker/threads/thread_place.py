"""A thread that is reserved for a run with something around its function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from headrace.worker.threads.thread_pool import ThreadCall, ThreadPool


class ThreadPlace(ThreadCall):
    """A thread that is reserved while the loop decides what to run in it; `async with` waits until
    it is there."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._granted: asyncio.Future[None] = self._loop.create_future()
        self._orders: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]
        self._orders = SimpleQueue()

    async def __aenter__(self) -> ThreadPlace:
        self._pool.submit(self)
        try:
            await self._granted
        except BaseException:
            if not self._pool.withdraw(self):
                self._orders.put(None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._orders.put(None)

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """What `work`, which must not raise, returns in the thread."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._orders.put((work, future))
        return future

    def perform(self) -> None:
        if not self._soon(_grant, self._granted):
            return
        while order := self._orders.get():
            work, future = order
            if not self._soon(_resolve, future, work()):
                return

    def _soon(self, callback: Callable[..., None], *arguments: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return False
        return True

    def ended(self, at: float) -> None:
        """Nothing is left to do: the answers have been given before."""


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
