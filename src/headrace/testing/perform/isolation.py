"""Keeps what a function sends in a test away from the store that the app is for."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from weakref import WeakKeyDictionary

from headrace.testing.faults.tested_store import TestedStore
from headrace.testing.kit import TestKit
from headrace.testing.sent.sent import SentLog
from headrace.worker.app import WorkerApp


class PerformingApp(WorkerApp, Protocol):
    """An app that a test kit can be made for. `Headrace` is one."""

    def testing(self) -> TestKit: ...


class _Shared:
    """The kit of an app that several runs share, as long as there are any."""

    def __init__(self, kit: TestKit) -> None:
        self.kit = kit
        self.users = 0


_shared: WeakKeyDictionary[PerformingApp, _Shared] = WeakKeyDictionary()
_lock = threading.Lock()


@asynccontextmanager
async def store_for(app: PerformingApp) -> AsyncIterator[SentLog | None]:
    """Within it, the app has the store of the test kit that is in use, or its own if a test has
    opened that, or else a new one in memory. Gives what is sent, if that is known."""
    shared = _entered(app)
    if shared is None:
        store = vars(app)["_store"]
        yield store.sent if isinstance(store, TestedStore) else None
        return
    try:
        yield shared.kit.store.sent
    finally:
        with _lock:
            shared.users -= 1
            is_last = not shared.users
            if is_last:
                del _shared[app]
        if is_last:
            await shared.kit.__aexit__(None, None, None)


def _entered(app: PerformingApp) -> _Shared | None:
    """A kit for this run; None if a test has seen to the store itself."""
    with _lock:
        shared, state = _shared.get(app), vars(app)
        if shared is None:
            if isinstance(state["_store"], TestedStore) or state["_sessions"].all():
                return None
            shared = _shared[app] = _Shared(app.testing().__enter__())
        shared.users += 1
        return shared
