"""Async methods that are called where no event loop runs: in sync code, which cannot await them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from headrace.core.wrong_use import NEEDS_ASYNCIO
from headrace.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])
# The loop, or None: `get_running_loop` would raise in sync code.
_running_loop = asyncio._get_running_loop


def explained_in_sync_code(instead: str) -> Callable[[F], F]:
    """For an async method. Inside an event loop nothing changes. Elsewhere its coroutine can still
    be awaited later, as by `asyncio.run`; if it is used as if it were the result, or dropped, that
    is explained with `instead`, such as `task.enqueue_sync(…)`."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def called(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            made = method(*args, **kwargs)
            if _running_loop() is not None:
                return made
            owner = getattr(args[0], "__name__", instead.partition(".")[0])
            return Unawaited(made, f"{owner}.{instead.partition('.')[2]}")

        return marked(called)  # type: ignore[return-value]

    return decorate


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, known to `iscoroutinefunction` as one: web frameworks ask before they call."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


class Unawaited(Coroutine[Any, Any, Any]):
    """A coroutine that explains itself to sync code."""

    _is_explained = False

    def __init__(self, coroutine: Coroutine[Any, Any, Any], instead: str) -> None:
        self._coroutine = coroutine
        name = getattr(coroutine, "__name__", "it")
        self._hint = (
            f"{name}() has done nothing yet, it must be awaited: in code without an event loop "
            f"write {instead}, or asyncio.run(…)"
        )
        caller = sys._getframe(2)
        self._place = caller.f_code.co_filename, caller.f_lineno

    def __await__(self) -> Generator[Any, Any, Any]:
        self._check_loop()
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        self._check_loop()
        return self._coroutine.send(value)

    def _check_loop(self) -> None:
        """Whoever runs a coroutine without a loop of asyncio has another, such as that of trio."""
        new = inspect.getcoroutinestate(self._coroutine) == inspect.CORO_CREATED
        if new and _running_loop() is None:
            self._is_explained = True
            self._coroutine.close()
            raise ConfigError(NEEDS_ASYNCIO)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        if value is None and traceback is None:
            return self._coroutine.throw(kind)
        return self._coroutine.throw(kind, value, traceback)

    def close(self) -> None:
        self._coroutine.close()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith(("_", "cr_")):
            raise AttributeError(name)
        self._is_explained = True
        raise AttributeError(self._hint)

    def __repr__(self) -> str:
        return f"<{self._hint}>"

    def __del__(self) -> None:
        coroutine = self.__dict__.get("_coroutine")
        if not inspect.iscoroutine(coroutine):
            return
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()
            if not self._is_explained:
                warnings.warn_explicit(self._hint, RuntimeWarning, *self._place)
