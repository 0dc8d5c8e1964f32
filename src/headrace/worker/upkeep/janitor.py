"""Forgets queues that nobody uses any more: a queue for each customer costs nothing later."""

from __future__ import annotations

import logging
from collections.abc import Collection

from headrace.core.bounds import UNUSED_QUEUE_TTL
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.worker.service import Service

log = logging.getLogger("headrace.worker")

_EVERY = 3600.0
# Workers that come and go in minutes leave it to others.
_FIRST_AFTER = 60.0
_SPACE, _TICKET = "upkeep", "janitor"
_LOOKED_AT_TOGETHER = 500


class Janitor(Service):
    """Removes, about once an hour for the whole fleet, queues that hold nothing and that nobody has
    used for a week; not those that this worker reads."""

    name = "janitor"

    def __init__(
        self, store: Store, queues: Collection[str], unused_for: float = UNUSED_QUEUE_TTL
    ) -> None:
        super().__init__()
        self._store = store
        self._own = frozenset(queues)
        self._unused_for = unused_for
        self._begun = False

    async def step(self) -> float:
        if not self._begun:
            self._begun = True
            return _FIRST_AFTER
        # Nobody waits for it: the first worker that comes in an hour does it.
        if await self._store.kv_set(_SPACE, _TICKET, b"1", ttl=_EVERY * 0.9, expected=None):
            await self.tidy()
        return _EVERY

    async def tidy(self) -> list[str]:
        """Remove unused queues; returns their names."""
        names = [name for name in await self._store.queues() if name not in self._own]
        removed: list[str] = []
        for at in range(0, len(names), _LOOKED_AT_TOGETHER):
            together = names[at : at + _LOOKED_AT_TOGETHER]
            states = await self._store.survey(together)
            for name, state in zip(together, states, strict=True):
                if self.stopping:
                    return removed
                # One with dead jobs stays; what is old of it goes.
                if state.counts != Counts(dead=state.counts.dead):
                    continue
                if await self._store.remove(name, unused_for=self._unused_for) == 0:
                    removed.append(name)
        if removed:
            log.info(
                "forgot %d queues that nobody used: %s",
                len(removed),
                ", ".join(removed[:20]),
                extra={"queues": removed[:20], "count": len(removed)},
            )
        return removed
