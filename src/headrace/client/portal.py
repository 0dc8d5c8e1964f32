"""Async work from code without an event loop, through a thread that has one."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from headrace.errors import ConfigError

T = TypeVar("T")


class Portal:
    """A thread with an event loop, started when first used, for `enqueue_sync` and the like. After
    a fork the child starts its own.

    Where gevent or eventlet have replaced threads, it is a greenlet: its loop then seems to run in
    all others too, and since a thread can run only one, the portals of all apps share it.
    """

    def __init__(self, closing: Callable[[], Awaitable[None]]) -> None:
        self._closing = closing
        self._server: _Server | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, awaited in the portal's thread."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have `work` run in the portal's thread, without waiting for it."""
        try:
            check_no_loop()
            loop = self._running().loop
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def close(self) -> None:
        with self._lock:
            server, self._server = self._server, None
        if server is None or not server.is_alive:
            return
        if server.is_running:
            closing = _awaited(self._closing())
            asyncio.run_coroutine_threadsafe(closing, server.loop).result(timeout=5)
        server.leave(self)

    def _running(self) -> _Server:
        with self._lock:
            server = self._server
            if server is None or not server.is_alive:
                server = self._server = _shared() if _has_greenlets() else _Server()
                server.users.add(self)
                atexit.register(self.close)
        # Not under the lock: it may be from before threads were replaced, and a greenlet that
        # starts waits for another.
        server.start()
        return server


class _Server:
    """A thread that runs an event loop, until the last of its users leaves."""

    def __init__(self) -> None:
        self.users: set[Portal] = set()
        self.loop = asyncio.new_event_loop()
        self._home = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="headrace-portal", daemon=True)
        self._starts = iter((self._thread.start,))
        """Gives its start once."""

    def start(self) -> None:
        """Start it, unless that is done. If there is no thread to be had, the next call tries."""
        for start in self._starts:
            try:
                start()
            except RuntimeError:
                self._starts = iter((start,))
                raise

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or is about to."""
        is_new = self._thread.ident is None and not self.loop.is_closed()
        return self._is_at_home and (is_new or self._thread.is_alive())

    @property
    def is_running(self) -> bool:
        return self._is_at_home and self._thread.is_alive()

    @property
    def _is_at_home(self) -> bool:
        # A greenlet is copied by a fork, with the pipe that wakes the loop of the parent.
        return self._home == os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether the caller is another thread, or another greenlet of its thread."""
        return self._thread.ident != threading.get_ident()

    def leave(self, portal: Portal) -> None:
        self.users.discard(portal)
        if self.users:
            return
        if self.is_running:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout=5)
        else:
            # It could not be started.
            self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        _serving[self.loop] = self
        try:
            self.loop.run_forever()
        finally:
            _serving.pop(self.loop, None)
            self.loop.close()


_serving: dict[asyncio.AbstractEventLoop, _Server] = {}


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _has_greenlets() -> bool:
    """Whether threads are greenlets here, all in one thread."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return True
    return eventlet is not None and bool(eventlet.is_monkey_patched("thread"))


_of_all: list[_Server] = []


def _shared() -> _Server:
    if not _of_all or not _of_all[0].is_alive:
        _of_all[:] = [_Server()]
    return _of_all[0]


def check_no_loop() -> None:
    """Raise `ConfigError` if the caller would block an event loop. That of a portal is not blocked
    by another greenlet."""
    try:
        server = _serving.get(asyncio.get_running_loop())
    except RuntimeError:
        return
    if server is None or not server.is_elsewhere:
        raise ConfigError(
            "the _sync methods block: inside a running event loop await the async ones instead"
        )
