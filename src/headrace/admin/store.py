"""The store itself: what it is, and whether it answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from headrace.admin.context import AdminContext
from headrace.core.address import without_password
from headrace.core.clock import to_datetime


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store that has answered."""

    kind: str
    """Such as `Redis`."""
    version: str
    url: str
    """Without its password."""
    namespace: str
    risks: tuple[str, ...]
    """Settings that may lose jobs, each as a sentence."""
    seconds: float
    """How long it took to answer."""
    ahead: float
    """By how many seconds its clock is ahead of the one here; behind if negative."""
    unread: tuple[str, ...] = ()
    """Settings that matter and that the store's user may not read, each as a sentence."""


class StoreAdmin(AdminContext):
    """Asking the store about itself."""

    async def now(self) -> datetime:
        """What time it is by the store's clock, which is the one that counts."""
        return to_datetime(await (await self._store()).time_ms())

    async def store(self) -> StoreInfo:
        """What the store is; raises `StoreError` if it does not answer."""
        store = await self._store()
        began = time.monotonic()
        described = await store.describe()
        took = time.monotonic() - began
        asked_ms = self._app.clock.now_ms()
        time_ms = await store.time_ms()
        # Compared with the middle: the answer was on its way for about half of the time.
        ahead = (time_ms - (asked_ms + self._app.clock.now_ms()) / 2) / 1000
        return StoreInfo(
            described.kind,
            described.version,
            without_password(self._app.url),
            self._app.namespace,
            described.risks,
            took,
            ahead,
            described.unread,
        )
