"""What questions cost: the calls to a store, counted."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from headrace import Headrace


class Counting:
    """A real store, and how often each of its methods was awaited."""

    def __init__(self, store: Any, calls: Counter[str]) -> None:
        self._store = store
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if inspect.iscoroutinefunction(method):
            self._calls[name] += 1
        return method


@asynccontextmanager
async def counted(app: Headrace) -> AsyncGenerator[Counter[str], None]:
    """The calls that the app's admin makes meanwhile, by name."""
    session, calls = await app.session(), Counter[str]()
    store = session.store
    session.store = Counting(store, calls)
    try:
        yield calls
    finally:
        session.store = store
