"""Settles that fail in a test. A settler repeats what fails, so that nothing is lost; a test of
what comes out in the end would not notice that each outcome took the long way."""

from __future__ import annotations

from typing import Any

from headrace.errors import StoreFull, StoreUnavailable
from headrace.worker.consume.settler import Settler

failures: list[Exception] = []
"""Of settles in this process, but for those that a test plants: a store that is away, or full."""


class _WatchedConsumer:
    """Notes each settle that fails."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    async def settle(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await self._consumer.settle(*args, **kwargs)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            failures.append(error)
            raise


def watch() -> None:
    """From now on, in this process."""
    begin = Settler.__init__

    def begin_watched(self: Settler, consumer: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, _WatchedConsumer(consumer), *args, **kwargs)

    Settler.__init__ = begin_watched  # type: ignore[method-assign]
