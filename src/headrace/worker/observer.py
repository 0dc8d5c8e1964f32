"""Calls functions of the app that nothing waits for, among them its error hooks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from headrace.core.task.signature import is_async

log = logging.getLogger("headrace.worker")

ErrorHook = Callable[[str, BaseException, dict[str, Any]], object]
Hook = Callable[..., object]
Observe = Callable[[str, BaseException, dict[str, Any]], None]

# Errors beyond these are not passed to a hook that is too slow.
_MOST_WAITING = 1000
_PATIENCE = 30.0
_LAST_WORDS = 1.0


class HookCaller:
    """Calls one function without ever waiting for it: an async one on the worker's loop, a plain
    one, which may block, in a thread of its own. One that raises, hangs or cannot keep up is named
    in the log, and disturbs nothing. `noun` says what it is, `misses` what it is called for."""

    def __init__(self, hook: Hook, noun: str, misses: str) -> None:
        self._hook = hook
        self._noun = noun
        self._misses = misses
        self._async = is_async(hook)
        self._calls: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.Queue[tuple[Any, ...] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._blamed: set[str] = set()
        self._missed = 0

    def call(self, *arguments: Any) -> None:
        """From the worker's event loop, or its heartbeat's."""
        if self._async:
            self._loop.call_soon_threadsafe(self._begin, arguments)
        else:
            self._run_in_thread(arguments)

    async def close(self) -> None:
        """Let the last calls end, for a moment, and say how many were missed."""
        await asyncio.sleep(0)
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST_WORDS)
        for call in self._calls:
            self._missed += call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if self._thread is not None:
            await self._end(self._thread)
        if self._missed:
            self._log(f"has missed {self._missed:,} {self._misses}")

    async def _end(self, thread: threading.Thread) -> None:
        ends_at = self._loop.time() + _LAST_WORDS
        asked = False
        # Not joined: a hook that hangs must not keep the worker from leaving.
        while thread.is_alive() and self._loop.time() < ends_at:
            if not asked:
                with contextlib.suppress(queue.Full):
                    self._waiting.put_nowait(None)
                    asked = True
            await asyncio.sleep(0.005)
        with contextlib.suppress(queue.Empty):
            while True:
                self._missed += self._waiting.get_nowait() is not None
        # For one that hangs now, and may return.
        self._waiting.put_nowait(None)

    def _begin(self, arguments: tuple[Any, ...]) -> None:
        if len(self._calls) >= _MOST_WAITING:
            self._miss()
            return
        call = self._loop.create_task(self._call(arguments), name="headrace-observer")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, arguments: tuple[Any, ...]) -> None:
        try:
            work = self._hook(*arguments)
            if isinstance(work, Coroutine):
                async with asyncio.timeout(_PATIENCE):
                    await work
        except TimeoutError:
            self._blame(f"hangs, and was ended after {_PATIENCE:g} s")
        except Exception as trouble:
            self._blame(f"failed: {trouble!r}")

    def _run_in_thread(self, arguments: tuple[Any, ...]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run_waiting, name="headrace-observer", daemon=True
            )
            self._thread.start()
        try:
            self._waiting.put_nowait(arguments)
        except queue.Full:
            self._miss()

    def _run_waiting(self) -> None:
        while (arguments := self._waiting.get()) is not None:
            try:
                self._hook(*arguments)
            except BaseException as trouble:
                self._blame(f"failed: {trouble!r}")

    def _miss(self) -> None:
        self._missed += 1
        self._blame(f"cannot keep up: it misses {self._misses}")

    def _blame(self, what: str) -> None:
        kind = what.partition(":")[0]
        if kind not in self._blamed:
            self._blamed.add(kind)
            self._log(f"{what}; logged once")

    def _log(self, what: str) -> None:
        hook = self._hook
        log.error("the %s %r %s", self._noun, hook, what, extra={"hook": repr(hook)})


class Observer:
    """Calls the error hooks."""

    def __init__(self, hooks: Sequence[ErrorHook]) -> None:
        self._callers = [HookCaller(hook, "error hook", "errors") for hook in hooks]

    def observe(self, scope: str, error: BaseException, details: dict[str, Any]) -> None:
        """From the worker's event loop, or its heartbeat's."""
        for caller in self._callers:
            caller.call(scope, error, details)

    async def close(self) -> None:
        """Let the last calls end, for a moment."""
        await asyncio.gather(*(caller.close() for caller in self._callers))


def unobserved(scope: str, error: BaseException, details: dict[str, Any]) -> None:
    """Does nothing: the default."""


def narrowed(observe: Observe | None, scope: str) -> Observe | None:
    """`observe` with one scope for all errors, if that is not empty."""
    if observe is None or not scope:
        return observe
    return lambda _, error, details: observe(scope, error, details)
