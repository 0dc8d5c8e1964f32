"""Async work from code without an event loop, through a thread that has one."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from headrace.errors import ConfigError

T = TypeVar("T")


class Portal:
    """A thread with an event loop, started when first used, for `enqueue_sync` and the like. After
    a fork the child starts its own."""

    def __init__(self, closing: Callable[[], Awaitable[None]]) -> None:
        self._closing = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, awaited in the portal's thread."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same, without waiting for it."""
        if _in_event_loop():
            work.close()
            raise ConfigError(
                "the _sync methods block: inside a running event loop await the async ones instead"
            )
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or not thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(_awaited(self._closing()), loop).result(timeout=5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="headrace-portal", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            return self._loop


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
