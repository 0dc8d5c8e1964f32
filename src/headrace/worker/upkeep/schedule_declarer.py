"""Puts the schedules in an app's code into the store, where those of other versions may be.

A declaration replaces what is stored, unless it is one that was replaced before: then the stored
one is newer. It counts for as long as a worker that declares it has been there of late, so that
whichever version is left in the end has its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.client.schedules import rewrite
from headrace.core.schedule.declaration import MARK, declared, is_outdated, mark_of, newest_mark
from headrace.core.schedule.definition import Definition
from headrace.core.schedule.schedule import Record, decode_record, encode_definition
from headrace.errors import HeadraceError, StoreError
from headrace.store.contract import Store

log = logging.getLogger("headrace.worker")

_CLAIMS = "declarations"
"""Key-value space with what each worker declares."""
_EVERY = 60.0
_LASTS = 300.0
"""How long a declaration counts after its worker was last seen,"""
_AFTER_END = 60.0
"""or after it has ended as it should."""
_FAREWELL = 1.0
_TRACES = "scheduler"
_DECLARED = "declared"


class ScheduleDeclarer:
    """One for a worker. `on_trouble` gets the name of a schedule and what is wrong with it."""

    def __init__(
        self,
        store: Store,
        definitions: Mapping[str, Definition],
        worker: str,
        monotonic: Callable[[], float],
        on_trouble: Callable[[str, str], object],
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._worker = worker
        self._monotonic = monotonic
        self._on_trouble = on_trouble
        self._claim_at = self._review_at = monotonic()
        self._has_claimed = False
        self._said: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """Declare all of them at the next `declare`."""
        self._to_declare = list(self._definitions)

    async def declare(self, since_ms: int | None = None) -> None:
        """Put the schedules in code into the store, once. They begin now, or at `since_ms`."""
        if self._definitions and self._monotonic() >= self._claim_at:
            await self._claim(_LASTS)
            self._has_claimed = True
            self._claim_at = self._monotonic() + _EVERY
        while self._to_declare:
            name = self._to_declare[-1]
            try:
                await self._declare(name, since_ms)
            except StoreError:
                raise
            except HeadraceError as error:
                self._on_trouble(name, str(error))
            self._to_declare.pop()
            if not self._to_declare:
                self._review_at = self._monotonic() + _EVERY
                await self._store.kv_set(_TRACES, _DECLARED, b"1", expected=None)

    async def review(self, records: Mapping[str, bytes]) -> None:
        """Have this worker's declarations hold where no worker with the stored one is left."""
        if self._monotonic() < self._review_at:
            return
        self._review_at = self._monotonic() + _EVERY
        for name in self._definitions.keys() & records.keys():
            with suppress(HeadraceError):
                if is_outdated(name, self._definitions[name], decode_record(records[name])):
                    await self._declare(name)

    async def is_forgotten(self) -> bool:
        """Whether the store does not know that anything was ever declared."""
        return _DECLARED not in await self._store.kv_all(_TRACES)

    async def close(self) -> None:
        with suppress(HeadraceError, TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                if self._has_claimed:
                    await self._claim(_AFTER_END)

    async def _claim(self, seconds: float) -> None:
        marks = [mark_of(name, encode_definition(it)) for name, it in self._definitions.items()]
        await self._store.kv_set(_CLAIMS, self._worker, b"".join(marks), ttl=seconds)

    async def _declare(self, name: str, since_ms: int | None = None) -> None:
        definition = self._definitions[name]
        now_ms = since_ms or await self._store.time_ms()
        unclaimed = b""

        def change(old: Record | None) -> Record:
            return declared(name, definition, now_ms, old, unclaimed)

        record = await rewrite(self._store, name, change, over_broken=True)
        if not is_outdated(name, definition, record):
            self._said.discard(name)
            return
        newer = newest_mark(name, record)
        if newer in await self._claimed():
            self._say(name)
            return
        unclaimed = newer
        await rewrite(self._store, name, change, over_broken=True)

    async def _claimed(self) -> set[bytes]:
        claims = (await self._store.kv_all(_CLAIMS)).values()
        return {claim[at : at + MARK] for claim in claims for at in range(0, len(claim), MARK)}

    def _say(self, name: str) -> None:
        if name not in self._said:
            self._said.add(name)
            log.warning(
                "schedule %r stays as a newer version of this program declares it; as it is in "
                "this one it comes back when no worker of that version has run for %d minutes",
                *(name, _LASTS / 60),
                extra={"schedule": name},
            )
