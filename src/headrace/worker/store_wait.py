"""How a worker, or a dashboard, that starts before its store waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.errors import StoreError, StoreUnavailable
from headrace.worker.service import longer_pause

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

_SAY_EVERY = 30.0


class StoppedWaiting(Exception):
    """The worker was stopped before its store answered."""


class StoreWait:
    """Repeats a call while the store is away: for `limit` seconds, or for ever if that is None,
    until `stopping` is set. An error that does not pass, such as a wrong password, is raised at
    once. `who` waits, in the log."""

    def __init__(
        self, limit: float | None, stopping: asyncio.Event, who: str = "the worker"
    ) -> None:
        self._limit = limit
        self._who = who
        self._ends_at = float("inf") if limit is None else time.monotonic() + limit
        self._stopping = stopping
        self._pause = 0.0
        self._said = ""
        self._say_again_at = 0.0

    async def through(self, begin: Callable[[], Awaitable[T]]) -> T:
        """The result of `begin`, which is called until the store answers."""
        while True:
            try:
                result = await begin()
            except StoreError as error:
                if not error.retryable:
                    raise
                if time.monotonic() >= self._ends_at:
                    raise self._given_up(error) from error
                self._say(str(error))
            else:
                if self._said:
                    log.warning("the store is there", extra={"error": self._said})
                    self._said = ""
                return result
            await self._rest()

    def _given_up(self, error: StoreError) -> StoreError:
        if not self._limit:
            return error
        return StoreUnavailable(f"{self._who} waited {self._limit:g} s for its store: {error}")

    def _say(self, trouble: str) -> None:
        """Say a trouble; one that stays is said at most once in 30 seconds."""
        now = time.monotonic()
        if trouble != self._said or now >= self._say_again_at:
            self._said, self._say_again_at = trouble, now + _SAY_EVERY
            log.warning("%s waits for its store: %s", self._who, trouble, extra={"error": trouble})

    async def _rest(self) -> None:
        self._pause = longer_pause(self._pause)
        until_end = max(self._ends_at - time.monotonic(), 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(self._pause, until_end)):
                await self._stopping.wait()
        if self._stopping.is_set():
            raise StoppedWaiting
