"""Waiting for a store that is on its way back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace import HeadraceError


async def eventually(attempt: Callable[[], Awaitable[Any]]) -> Any:
    """What an attempt gives, once it gives something true and the store is not in its way."""
    async with asyncio.timeout(60):
        while True:
            try:
                if found := await attempt():
                    return found
            except HeadraceError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(0.05)
