"""What `@app.process_lifespan` declares: set-up and clean-up around the life of a task process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from headrace.core import bounds
from headrace.errors import ConfigError

START_TIMEOUT = 60.0
"""Seconds for an app to be imported in a process, and again for its set-up: not the function's
time."""
_SHORTEST = 0.001


class ProcessLifespan(NamedTuple):
    """`function` is a generator function; it may take `timeout` seconds to yield."""

    function: Callable[..., Iterator[Any]]
    timeout: float

    @property
    def name(self) -> str:
        """The function, as messages name it."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def around(self, app: object) -> AbstractContextManager[Any]:
        """Enters and leaves what the function sets up; gives what it yields."""
        takes_app = bool(inspect.signature(self.function).parameters)
        return contextmanager(self.function)(*([app] if takes_app else []))


def process_lifespan_of(
    function: Callable[..., Iterator[Any]], timeout: float, known: ProcessLifespan | None
) -> ProcessLifespan:
    """The declaration; `ConfigError` if there is one already, or it cannot be one."""
    if inspect.isasyncgenfunction(function):
        raise ConfigError(
            "@app.process_lifespan goes on a plain generator function, not on an async one: a "
            "task process has no event loop"
        )
    if not inspect.isgeneratorfunction(function):
        raise ConfigError("@app.process_lifespan goes on a generator function: one that yields")
    if known is not None:
        raise ConfigError("the app has a process_lifespan already; it can have one")
    seconds = bounds.check_seconds("process_lifespan: timeout", timeout, least=_SHORTEST)
    return ProcessLifespan(function, seconds)
