"""Trying again while a store is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.client.send.unsent import texts
from headrace.core.job.parcel import Parcel
from headrace.errors import EnqueueUnknown, StoreError, StoreUnavailable

T = TypeVar("T")

# A store that restarts is back within seconds; a sender should not notice.
_MOST = 6
_FIRST_PAUSE = 0.05


class Tries:
    """How often a send was tried, and whether the store may have done it."""

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self._parcels = parcels
        self._left = _MOST
        self._pause = _FIRST_PAUSE / 2
        self.unsure = False

    def pause_after(self, error: StoreError) -> float:
        """Seconds until the next try. Raises the error if there is none; `EnqueueUnknown` if an
        earlier try may have been carried out."""
        self._left -= 1
        passes = _passes(error)
        self.unsure |= isinstance(error, StoreUnavailable) and error.sent
        if not self._left or not passes:
            if self.unsure:
                raise EnqueueUnknown(texts(self._parcels), str(error)) from error
            raise error
        self._pause *= 2
        return self._pause


async def retry_while_unavailable(work: Callable[[], Awaitable[T]]) -> T:
    """The result of idempotent work, tried again while the store is away."""
    pause = _FIRST_PAUSE
    for _ in range(_MOST - 1):
        try:
            return await work()
        except StoreUnavailable as error:
            if not _passes(error):
                raise
            await asyncio.sleep(pause)
            pause *= 2
    return await work()


def _passes(error: StoreError) -> bool:
    """Whether the next try may soon succeed. Not after a silence: its caller has waited long."""
    return isinstance(error, StoreUnavailable) and not error.silent
