"""Queues: what is in them, and whether they go on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin.desk import Desk
from headrace.core import limits
from headrace.errors import StoreFull

if TYPE_CHECKING:
    from headrace.store.contract import Counts
    from headrace.store.values import Control


_PAUSED = "paused"
"""The space of queues that were paused before anything was sent to them: stores list only those
that were sent to. Whether they still are is asked of the store."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue, how many of its jobs are in each state, and what of it is paused."""

    name: str
    waiting: int
    running: int
    scheduled: int
    dead: int
    blocked: int = 0
    paused: bool = False
    paused_tasks: tuple[str, ...] = ()
    """Tasks that are paused in this queue, by name, whether or not the queue is."""

    @classmethod
    def of(cls, name: str, counts: Counts, control: Control) -> QueueInfo:
        return cls(
            name,
            counts.waiting,
            counts.running,
            counts.scheduled,
            counts.dead,
            counts.blocked,
            control.paused,
            tuple(sorted(control.paused_tasks)),
        )


class QueueAdmin(Desk):
    """Looking at queues, pausing and resuming them."""

    async def queues(self) -> list[QueueInfo]:
        """All queues that were ever sent to, that the app's tasks use, or in which something is
        paused, by name."""
        names = await self._queue_names()
        noted = (await (await self._store()).notes(_PAUSED)).keys() - set(names)
        found = [await self.queue(name) for name in sorted({*names, *noted})]
        return [
            info for info in found if info.name not in noted or info.paused or info.paused_tasks
        ]

    async def queue(self, name: str) -> QueueInfo:
        """One queue; all zero if nothing was ever sent to it."""
        limits.check_name("queue", name)
        store = await self._store()
        return QueueInfo.of(name, await store.count(name), await store.control(name))

    async def pause(self, queue: str, task: str | None = None) -> None:
        """Have no more jobs of a queue started, or none of one task in it, until `resume`: by any
        worker, also one that starts later. What is running goes on. Neither has to exist yet."""
        _check_names(queue, task)
        store = await self._store()
        await store.pause(queue, task or "")
        if queue not in await store.queues():
            # For the list alone: a full store pauses all the same.
            with suppress(StoreFull):
                await store.note(_PAUSED, queue, b"1")

    async def resume(self, queue: str, task: str | None = None) -> None:
        """Undo `pause`, of the queue or of one task in it; each by itself."""
        _check_names(queue, task)
        await (await self._store()).resume(queue, task or "")


def _check_names(queue: str, task: str | None) -> None:
    limits.check_name("queue", queue)
    if task is not None:
        limits.check_name("task", task)
