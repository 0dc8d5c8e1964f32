"""Handlers that nobody should write: what they raise, what they return, and what they do to the
process that runs them. `ODD` has each by its name; all but side effects end without a result."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from headrace import StoreUnavailable

Act = Callable[[], Any]


# What they raise


class SaysNothing(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class InterruptsWhenAsked(Exception):
    def __repr__(self) -> str:
        raise KeyboardInterrupt

    __str__ = __repr__


class SaysANumber(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307


class NeverEnds(Exception):
    def __str__(self) -> str:
        return str(self)


class Lies(Exception):
    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Touchy(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Bare(BaseException):
    """Neither an error nor a signal."""


def raising(error: BaseException) -> Act:
    def act() -> None:
        raise error

    return act


def _chained(length: int) -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(length):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following
    return error


def _circular() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def _nested_groups(depth: int) -> BaseException:
    error: BaseException = ValueError("core")
    for _ in range(depth):
        error = BaseExceptionGroup("around", [error])
    return error


def _noted(*notes: Any) -> BaseException:
    error = ValueError("with notes")
    error.__notes__ = list(notes)
    return error


def _named(name: str) -> BaseException:
    made: BaseException = type(name, (Exception,), {})("odd name")
    return made


def _reraise_elsewhere() -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(raising(Bare("from a thread"))).result()


def _raise_no_error() -> None:
    raise 7  # type: ignore[misc]  # noqa: B016


RAISED: dict[str, Act] = {
    "str exits": raising(SaysNothing()),
    "repr interrupts": raising(InterruptsWhenAsked()),
    "str is a number": raising(SaysANumber()),
    "str never ends": raising(NeverEnds()),
    "class lies": raising(Lies()),
    "touchy": raising(Touchy()),
    "bare": raising(Bare("bare")),
    "huge text": raising(ValueError("x" * 20_000_000)),
    "huge repr": raising(KeyError(list(range(500_000)))),
    "surrogates": raising(ValueError("\ud800\udfff")),
    "controls": raising(ValueError("\x00\x1b[2J\x07\r\n" * 100)),
    "bytes": raising(ValueError(b"\xff\xfe", object())),
    "chain of 3000": raising(_chained(3000)),
    "circle": raising(_circular()),
    "groups in groups": raising(_nested_groups(150)),
    "wide group": raising(ExceptionGroup("wide", [ValueError(n) for n in range(5000)])),
    "odd notes": raising(_noted(1, None, object(), "x" * 1_000_000)),
    "long name": raising(_named("E" * 100_000)),
    "name with a space": raising(_named("not a name\n")),
    "memory": raising(MemoryError()),
    "timeout": raising(TimeoutError()),
    "store": raising(StoreUnavailable("a handler said so")),
    "future cancelled": raising(concurrent.futures.CancelledError()),
    "invalid state": raising(asyncio.InvalidStateError()),
    "unicode": raising(UnicodeDecodeError("utf-8", b"\xff" * 1_000_000, 0, 1, "odd")),
    "syntax": raising(SyntaxError("odd", ("file", -1, 10**9, "x" * 100_000))),
    "no error": _raise_no_error,
    "thread": _reraise_elsewhere,
    "exit with an object": raising(SystemExit(object())),
}


# What they return


class Unwilling:
    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)

    def __repr__(self) -> str:
        raise KeyboardInterrupt


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def _generator() -> Iterator[int]:
    yield 1


RETURNED: dict[str, Act] = {
    "lambda": lambda: lambda: 1,
    "generator": _generator,
    "iterator": lambda: iter([1]),
    "file": io.StringIO,
    "module": lambda: sys,
    "class": lambda: Unwilling,
    "unwilling": Unwilling,
    "error returned": lambda: ValueError("as a value"),
    "circle returned": _circle,
    "nested too deep": lambda: _nested(100_000),
    "too large": lambda: "x" * 50_000_000,
    "number too large": lambda: 2**200,
    "lone surrogate": lambda: "\ud800",
    "keys": lambda: {object(): 1},
    "set of objects": lambda: {object()},
    "lock": threading.Lock,
}


# What they do


class _Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError("no room for words")


def _break_streams() -> None:
    """Whoever prints from now on fails."""
    sys.stdout, sys.stderr = _Broken(), _Broken()


def _close_streams() -> None:
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with contextlib.suppress(Exception):
            stream.close()


def _stop_loop() -> None:
    asyncio.get_running_loop().stop()


def _close_loop() -> None:
    asyncio.get_running_loop().close()


def _cancel_oneself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _spoil_loop() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no handler")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(fail)
    loop.call_soon(fail)
    loop.call_exception_handler({"message": "odd"})
    loop.set_task_factory(None)


def _leave_tasks() -> None:
    async def forever() -> None:
        while True:
            with contextlib.suppress(BaseException):
                await asyncio.sleep(3600)

    kept.extend(asyncio.get_running_loop().create_task(forever()) for _ in range(10))


def _leave_threads() -> None:
    threading.Thread(target=raising(Bare("in a thread")), daemon=True).start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def _change_signals() -> None:
    for number in (signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.kill(os.getpid(), signal.SIGUSR1)


def _clear_environment() -> None:
    os.environ.clear()


def _move() -> None:
    os.chdir("/")


def _be_strict() -> None:
    warnings.simplefilter("error")
    gc.disable()


def _silence_logs() -> None:
    logging.disable()
    logging.getLogger().handlers.clear()


def _small_stack() -> None:
    limit = sys.getrecursionlimit()

    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)

    try:
        sys.setrecursionlimit(200)
        deeper(10_000)
    finally:
        sys.setrecursionlimit(limit)


def _trace() -> None:
    sys.settrace(None)
    sys.setprofile(None)


kept: list[Any] = []
"""Tasks that nobody else keeps."""

EFFECTS: dict[str, Act] = {
    "break streams": _break_streams,
    "close streams": _close_streams,
    "stop the loop": _stop_loop,
    "close the loop": _close_loop,
    "cancel oneself": _cancel_oneself,
    "spoil the loop": _spoil_loop,
    "leave tasks": _leave_tasks,
    "leave threads": _leave_threads,
    "change signals": _change_signals,
    "clear the environment": _clear_environment,
    "move": _move,
    "be strict": _be_strict,
    "silence logs": _silence_logs,
    "small stack": _small_stack,
    "trace": _trace,
}

ODD = {**RAISED, **RETURNED, **EFFECTS}
