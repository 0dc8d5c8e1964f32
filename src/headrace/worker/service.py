"""A loop that does one step again and again, through whatever the store does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod

from headrace.errors import StoreError
from headrace.worker.observer import Observe, unobserved

log = logging.getLogger("headrace.worker")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Service(ABC):
    """Runs `step` until told to stop. A store that fails is waited for, with one line in the log
    when it begins and one when it is over; an unexpected error is logged and counted as a crash,
    and the service goes on."""

    name = "service"
    scope = ""
    """What an error of it is observed as; its name if empty."""

    def __init__(self) -> None:
        self.crashes = 0
        self.observe: Observe = unobserved
        self.stopping = False
        self._wake = asyncio.Event()
        self._pause = 0.0
        self._trouble = ""

    @abstractmethod
    async def step(self) -> float:
        """Do what there is to do now; the seconds to rest before the next step."""

    async def recover(self) -> None:  # noqa: B027
        """Put right what a failed step may have left behind; called before the next one."""

    def wake(self) -> None:
        """Cut a rest short."""
        self._wake.set()

    def stop(self) -> None:
        self.stopping = True
        self.wake()

    async def run(self) -> None:
        while not self.stopping:
            try:
                if self._trouble:
                    await self.recover()
                rest = await self.step()
                self._all_well()
            except StoreError as error:
                rest = self._in_trouble(error)
            except Exception as error:
                self.crashes += 1
                log.exception("the %s crashed; it goes on", self.name)
                self.observe(self.scope or self.name, error, {"crashed": True})
                rest = self._next_pause()
            await self._rest(rest)

    async def _rest(self, seconds: float) -> None:
        if seconds > 0 and not self.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()

    def _in_trouble(self, error: StoreError) -> float:
        # The same trouble is named once, however often it is met.
        if str(error) != self._trouble:
            self._trouble = str(error)
            log.warning("the %s waits: %s", self.name, error)
        self.observe(self.scope or self.name, error, {})
        return self._next_pause()

    def _all_well(self) -> None:
        if self._trouble:
            log.warning("the %s goes on", self.name)
        self._trouble, self._pause = "", 0.0

    def _next_pause(self) -> float:
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        return self._pause


async def ended(service: Service, running: asyncio.Task[None], grace: float) -> None:
    """Have a service stop, and wait until it has; what does not end by itself is cancelled."""
    service.stop()
    try:
        async with asyncio.timeout(grace):
            await asyncio.shield(running)
    except TimeoutError:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
