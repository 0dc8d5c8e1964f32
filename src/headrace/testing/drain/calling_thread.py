"""Functions in the thread of the test that calls `drain_sync`, which waits for them anyway."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from headrace.client.portal import Portal

T = TypeVar("T")


class CallingThread(Executor):
    """Runs calls in the thread that `serve`s; while that is busy, in others. A test of a database
    with a connection for each thread, such as Django's, sees what its jobs write."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_free = True
        self._others: ThreadPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        call = partial(fn, *args, **kwargs)
        with self._lock:
            if self._is_free:
                self._is_free = False
                self._calls.put(call)
                return None
            if self._others is None:
                self._others = ThreadPoolExecutor(thread_name_prefix="headrace-task")
        return self._others.submit(call)

    def serve(self, until: Future[T]) -> T:
        """Run calls until this is done; its result."""
        __tracebackhide__ = True
        until.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                call()
                with self._lock:
                    self._is_free = True
        except BaseException:
            until.cancel()
            raise
        return until.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The serving thread goes on: more may come, of the next worker."""
        if self._others is not None:
            self._others.shutdown(wait, cancel_futures=cancel_futures)
            self._others = None


calling_thread: ContextVar[CallingThread | None] = ContextVar("calling_thread", default=None)
"""Of code that a `_sync` method has started: the thread that waits for it."""


class ServingPortal(Portal):
    """The portal of an app that is tested: a thread that waits for it runs functions meanwhile."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        __tracebackhide__ = True
        thread = CallingThread()
        token = calling_thread.set(thread)
        try:
            future = self._portal.start(work)
        finally:
            calling_thread.reset(token)
        return thread.serve(future)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._portal.start(work)

    def close(self) -> None:
        self._portal.close()
