"""Values that exist once per event loop: connections, and what waits on them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, runtime_checkable

from headrace.core.wrong_use import NEEDS_ASYNCIO
from headrace.errors import ConfigError

T = TypeVar("T")


class LoopLocal(Generic[T]):
    """One value for each event loop, forgotten when its loop is closed."""

    def __init__(self) -> None:
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T | None:
        return self._values.get(_running_loop())

    def set(self, value: T) -> T:
        # A program may run loop after loop; what the old ones held must not add up.
        self._values = {loop: old for loop, old in self._values.items() if not loop.is_closed()}
        self._values[_running_loop()] = value
        return value

    def all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Those of all loops that are not closed; from any thread."""
        # Copied in one go: another thread may add one meanwhile.
        return [(loop, value) for loop, value in list(self._values.items()) if not loop.is_closed()]

    def pop(self) -> T | None:
        return self._values.pop(_running_loop(), None)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(NEEDS_ASYNCIO) from None


@runtime_checkable
class LeavesLoops(Protocol):
    """A store that can be closed for event loops which cannot be awaited any more."""

    def close_for(self, loops: Iterable[asyncio.AbstractEventLoop]) -> None:
        """Close it for these, and for all loops that are closed; from any thread."""
        ...
