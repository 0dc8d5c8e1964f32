"""Calls of users' functions in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

_MOST = 32


class OwnThreads:
    """A thread for each call, at most 32 at a time, on one event loop. A call that hangs holds its
    thread and nothing else: neither the end of the process, nor that of the loop, nor what other
    code does in the threads of the loop, such as looking up host names."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(_MOST)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function returns or raises. If this is cancelled, the function goes on."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def perform() -> None:
            given: Any = None
            error: BaseException | None = None
            try:
                given = function(*args)
            except StopIteration as stop:
                # A future cannot have it.
                error = RuntimeError(f"it raised StopIteration: {stop}")
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(self._end, done, given, error)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return

        target = contextvars.copy_context().run
        try:
            threading.Thread(
                target=target, args=(perform,), name="headrace-offload", daemon=True
            ).start()
        except BaseException:
            self._room.release()
            raise
        return await done

    def _end(self, done: asyncio.Future[Any], given: Any, error: BaseException | None) -> None:
        self._room.release()
        if done.done():
            return
        if error is None:
            done.set_result(given)
        else:
            done.set_exception(error)
