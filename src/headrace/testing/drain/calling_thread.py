"""Functions in the thread of the test that calls `drain_sync`, which waits for them anyway."""

from __future__ import annotations

import asyncio
import sys
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
        self._has_ended = False
        self._others: ThreadPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        call = partial(fn, *args, **kwargs)
        with self._lock:
            if self._is_free:
                self._is_free = False
                self._calls.put(partial(self._perform, call))
                return None
            if self._others is None:
                self._others = ThreadPoolExecutor(thread_name_prefix="headrace-task")
        return self._others.submit(call)

    def _perform(self, call: Callable[[], Any]) -> None:
        call()
        with self._lock:
            self._is_free = True

    def call_here(self, call: Callable[[], Any]) -> bool:
        """Have the thread that serves run it, after what it runs now; False if none serves."""
        with self._lock:
            if self._has_ended:
                return False
            self._calls.put(call)
            return True

    def serve(self, until: Future[T]) -> T:
        """Run calls until this is done; its result."""
        __tracebackhide__ = True
        until.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                call()
        except BaseException:
            until.cancel()
            raise
        finally:
            with self._lock:
                self._has_ended = True
            # What came at the last moment is not left without an answer.
            while not self._calls.empty():
                if (call := self._calls.get()) is not None:
                    call()
        return until.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The serving thread goes on: more may come, of the next worker."""
        if self._others is not None:
            self._others.shutdown(wait, cancel_futures=cancel_futures)
            self._others = None


class ThreadForSyncCode(Executor):
    """The thread that serves, for what async functions do with asgiref's `sync_to_async`, as Django
    does. That runs in the thread of the caller, whose connection and transaction it sees; asgiref
    does not know that this one waits and would serve, and would wait for it for ever."""

    def __init__(self, thread: CallingThread) -> None:
        self._thread = thread

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        call = partial(_answer, future, partial(fn, *args, **kwargs))
        if not self._thread.call_here(call):
            threading.Thread(target=call, name="headrace-late", daemon=True).start()
        return future


def _answer(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise


async def _with_sync_code_in(thread: CallingThread, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, whose sync code runs in this thread."""
    asgiref = sys.modules.get("asgiref.sync")
    if asgiref is None:
        return await work
    executor, loop = ThreadForSyncCode(thread), asyncio.get_running_loop()
    # For what this starts, and for runs whose context began elsewhere.
    of_contexts, of_loops = asgiref.AsyncToSync.executors, asgiref.AsyncToSync.loop_thread_executors
    before = of_loops.get(loop)
    of_contexts.current = of_loops[loop] = executor
    try:
        return await work
    finally:
        if before is None:
            of_loops.pop(loop, None)
        else:
            of_loops[loop] = before


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
            future = self._portal.start(_with_sync_code_in(thread, work))
        except BaseException:
            work.close()
            raise
        finally:
            calling_thread.reset(token)
        return thread.serve(future)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._portal.start(work)

    def close(self) -> None:
        self._portal.close()
