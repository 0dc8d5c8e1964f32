"""Runs whose function says itself what becomes of its event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.client.delivery import Decision, Fate
from headrace.worker.run import Run

_FOREVER = float("inf")


class HandRun:
    """A function on the one side, and on the other what is said of its delivery: while it runs, or
    after it, by whom it has given the delivery to."""

    def __init__(self, run: Run, enter: Callable[[Run], Awaitable[Any]]) -> None:
        self._run = run
        run.fate = fate = Fate()
        self.fate = fate
        self._function = asyncio.ensure_future(_entered(run, enter))
        self._said = asyncio.ensure_future(fate.decided())

    async def decision(self) -> Decision:
        """What was said. Raises `Dropped`, or what the function raised before anything was said. If
        it is cancelled, so is the function, and nothing can be said any more."""
        try:
            return await self._decision()
        except asyncio.CancelledError:
            self.fate.close()
            await self._stop_function()
            raise
        finally:
            self._said.cancel()

    @property
    def goes_on(self) -> bool:
        return not self._function.done()

    async def rest(self) -> BaseException | None:
        """Wait for the end of a function that has settled its event and goes on, as long as it may
        run; what it raised."""
        left = max(self._run.ends_at - time.monotonic(), 0.0)
        try:
            await asyncio.wait((self._function,), timeout=None if left == _FOREVER else left)
        finally:
            if self.goes_on:
                await self._stop_function()
        return None if self._function.cancelled() else self._function.exception()

    async def _decision(self) -> Decision:
        said, function = self._said, self._function
        await asyncio.wait((function, said), return_when=asyncio.FIRST_COMPLETED)
        if not said.done() or said.exception() is not None:
            # Nothing was said yet, or it was let go of: if the function fails, that is what counts.
            if said.done():
                await asyncio.wait((function,))
            function.result()
            self._run.let_go()
        return await said

    async def _stop_function(self) -> None:
        self._function.cancel()
        await asyncio.wait((self._function,))


async def _entered(run: Run, enter: Callable[[Run], Awaitable[Any]]) -> Any:
    return await enter(run)
