"""Whether the store answers. Probes may ask often, and from anywhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.client.portal import Portal

_TIMEOUT = 3.0
_MAX_AGE = 1.0


class MonitoredApp(Protocol):
    """What metrics and probes need of an app."""

    @property
    def admin(self) -> Admin: ...
    @property
    def portal(self) -> Portal: ...


class StoreProbe:
    """Asks a store a question of constant cost, at most once a second for all callers. A store
    that does not answer within a few seconds counts as away."""

    def __init__(self, app: MonitoredApp) -> None:
        self._app = app
        self._error = ""
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[str] | None = None

    async def error(self) -> str:
        """Why the store does not answer; empty if it does."""
        if time.monotonic() - self._asked_at < _MAX_AGE:
            return self._error
        loop, asking = asyncio.get_running_loop(), self._asking
        if asking is None or asking.done() or asking.get_loop() is not loop:
            asking = self._asking = loop.create_task(self._ask())
        # Others may await the same task when the first caller is cancelled.
        return await asyncio.shield(asking)

    async def _ask(self) -> str:
        self._error = await error_within(self._app.admin.supervisors(), _TIMEOUT)
        self._asked_at = time.monotonic()
        return self._error


async def error_within(question: Awaitable[object], seconds: float) -> str:
    """Why the store has not answered `question` within `seconds`; empty if it has."""
    try:
        async with asyncio.timeout(seconds):
            await question
    except TimeoutError:
        return f"the store did not answer within {seconds:g} s"
    except (HeadraceError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
