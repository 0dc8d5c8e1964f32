"""The ways in which a handler can end without a result."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Ending(NamedTuple):
    act: Callable[[], Any]
    error_type: str
    """How the name of the error ends that is kept of it."""
    reason: str = "retries_exhausted"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _exit() -> None:
    sys.exit(3)


def _raise(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def _deeper() -> Any:
    return _deeper()


_TWO = BaseExceptionGroup("two", [ValueError(1), KeyboardInterrupt()])

ENDINGS = {
    "error": Ending(_raise(ValueError("no")), "ValueError"),
    "sys.exit": Ending(_exit, "SystemExit"),
    "SystemExit": Ending(_raise(SystemExit(0)), "SystemExit"),
    "KeyboardInterrupt": Ending(_raise(KeyboardInterrupt()), "KeyboardInterrupt"),
    "GeneratorExit": Ending(_raise(GeneratorExit()), "GeneratorExit"),
    "BaseException": Ending(_raise(BaseException("bare")), "BaseException"),
    # In a coroutine Python itself makes a RuntimeError of the first.
    "StopIteration": Ending(_raise(StopIteration(1)), ""),
    "StopAsyncIteration": Ending(_raise(StopAsyncIteration()), ""),
    "CancelledError": Ending(_raise(asyncio.CancelledError()), "CancelledError"),
    "group": Ending(_raise(_TWO), "BaseExceptionGroup"),
    "no words": Ending(_raise(Unspeakable()), "Unspeakable"),
    "recursion": Ending(_deeper, "RecursionError"),
}
