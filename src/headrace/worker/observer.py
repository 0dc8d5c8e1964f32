"""Calls an app's error hooks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from headrace.core.task.signature import is_async

log = logging.getLogger("headrace.worker")

ErrorHook = Callable[[str, BaseException, dict[str, Any]], object]
Observe = Callable[[str, BaseException, dict[str, Any]], None]

# Errors beyond these are not passed to a hook that is too slow.
_MOST_WAITING = 1000
_PATIENCE = 30.0
_LAST_WORDS = 1.0


class Observer:
    """Calls hooks without ever waiting for them: async ones on the worker's loop, plain ones, which
    may block, in a thread of their own. A hook that raises, hangs or cannot keep up is named once
    in the log, and disturbs nothing."""

    def __init__(self, hooks: Sequence[ErrorHook]) -> None:
        self._async = [hook for hook in hooks if is_async(hook)]
        self._plain = [hook for hook in hooks if not is_async(hook)]
        self._calls: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._thread_calls: queue.Queue[Callable[[], None] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._blamed: set[tuple[object, str]] = set()

    def observe(self, scope: str, error: BaseException, details: dict[str, Any]) -> None:
        """From the worker's event loop, or its heartbeat's."""
        for hook in self._plain:
            self._run_in_thread(hook, scope, error, details)
        if self._async:
            self._loop.call_soon_threadsafe(self._begin, scope, error, details)

    async def close(self) -> None:
        """Let the last calls end, for a moment."""
        await asyncio.sleep(0)
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST_WORDS)
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._thread_calls.put_nowait(None)
            ends_at = self._loop.time() + _LAST_WORDS
            # Not joined: a hook that hangs must not keep the worker from leaving.
            while self._thread.is_alive() and self._loop.time() < ends_at:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def _begin(self, scope: str, error: BaseException, details: dict[str, Any]) -> None:
        for hook in self._async:
            if len(self._calls) >= _MOST_WAITING:
                self._blame(hook, "cannot keep up: it misses errors")
                continue
            call = self._loop.create_task(
                self._call(hook, scope, error, details), name="headrace-observer"
            )
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(
        self, hook: ErrorHook, scope: str, error: BaseException, details: dict[str, Any]
    ) -> None:
        try:
            work = hook(scope, error, details)
            if isinstance(work, Coroutine):
                async with asyncio.timeout(_PATIENCE):
                    await work
        except TimeoutError:
            self._blame(hook, f"hangs, and was ended after {_PATIENCE:g} s")
        except Exception as trouble:
            self._blame(hook, f"failed: {trouble!r}")

    def _run_in_thread(
        self, hook: ErrorHook, scope: str, error: BaseException, details: dict[str, Any]
    ) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run_thread_calls, name="headrace-observer", daemon=True
            )
            self._thread.start()
        try:
            self._thread_calls.put_nowait(partial(self._called_here, hook, scope, error, details))
        except queue.Full:
            self._blame(hook, "cannot keep up: it misses errors")

    def _run_thread_calls(self) -> None:
        while (call := self._thread_calls.get()) is not None:
            call()

    def _called_here(
        self, hook: ErrorHook, scope: str, error: BaseException, details: dict[str, Any]
    ) -> None:
        try:
            hook(scope, error, details)
        except BaseException as trouble:
            self._blame(hook, f"failed: {trouble!r}")

    def _blame(self, hook: ErrorHook, what: str) -> None:
        kind = what.partition(":")[0]
        if (hook, kind) not in self._blamed:
            self._blamed.add((hook, kind))
            log.error("the error hook %r %s; logged once", hook, what, extra={"hook": repr(hook)})


def unobserved(scope: str, error: BaseException, details: dict[str, Any]) -> None:
    """Does nothing: the default."""


def narrowed(observe: Observe | None, scope: str) -> Observe | None:
    """`observe` with one scope for all errors, if that is not empty."""
    if observe is None or not scope:
        return observe
    return lambda _, error, details: observe(scope, error, details)
