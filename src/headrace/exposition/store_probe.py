"""Whether the store answers: for probes, which may come often, and from anyone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.app import Headrace

_PATIENCE = 3.0
_FRESH = 1.0


class StoreProbe:
    """Asks a store a small question, however much it holds, once for all who want to know within a
    second. One that is away is given a few seconds."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._why = ""
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[str] | None = None

    async def why_away(self) -> str:
        """Why it does not answer; empty if it does."""
        if time.monotonic() - self._asked_at < _FRESH:
            return self._why
        loop, asking = asyncio.get_running_loop(), self._asking
        if asking is None or asking.done() or asking.get_loop() is not loop:
            asking = self._asking = loop.create_task(self._ask())
        # Others may wait for it when whoever asked first has gone.
        return await asyncio.shield(asking)

    async def _ask(self) -> str:
        self._why = await why_unanswered(self._app.admin.supervisors(), _PATIENCE)
        self._asked_at = time.monotonic()
        return self._why


async def why_unanswered(question: Awaitable[object], patience: float) -> str:
    """Why the store has not answered within so many seconds; empty if it has."""
    try:
        async with asyncio.timeout(patience):
            await question
    except TimeoutError:
        return f"the store did not answer within {patience:g} s"
    except (HeadraceError, OSError) as error:
        return str(error) or type(error).__name__
    return ""
