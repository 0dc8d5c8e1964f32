"""Queues: what is in them, and whether they go on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin.desk import Desk
from headrace.core import limits
from headrace.core.sources import group_source
from headrace.errors import ConfigError, StoreFull
from headrace.store.values import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        paused, by name; `topics` lists the groups of topics."""
        names = await self._queue_names()
        noted = (await (await self._store()).notes(_PAUSED)).keys() - set(names)
        found = [await self.queue(name) for name in sorted({*names, *noted})]
        return [
            info for info in found if info.name not in noted or info.paused or info.paused_tasks
        ]

    async def queue(self, name: str) -> QueueInfo:
        """One queue; all zero if nothing was ever sent to it. Or a group, such as
        `billing@orders`, in all shards of its topic; paused if it is in any."""
        store, names = await self._store(), await self._queue_names(name)
        counts = total([await store.count(each) for each in names])
        controls = [await store.control(each) for each in names]
        control = next((each for each in controls if each.paused), controls[0])
        return QueueInfo.of(name, counts, control)

    async def pause(self, queue: str, task: str | None = None) -> None:
        """Have no more jobs of a queue started, or none of one task in it, until `resume`: by any
        worker, also one that starts later. What is running goes on. Neither has to exist yet. Of a
        group, such as `billing@orders`, no more events are handled; other groups go on."""
        _check_task(queue, task)
        store = await self._store()
        for name in await self._queue_names(queue):
            await store.pause(name, task or "")
        if not group_source(queue) and queue not in await store.queues():
            # For the list alone: a full store pauses all the same.
            with suppress(StoreFull):
                await store.note(_PAUSED, queue, b"1")

    async def resume(self, queue: str, task: str | None = None) -> None:
        """Undo `pause`, of the queue or of one task in it; each by itself."""
        _check_task(queue, task)
        store = await self._store()
        for name in await self._queue_names(queue):
            await store.resume(name, task or "")


def total(counts: Iterable[Counts]) -> Counts:
    """What there is in several queues together."""
    rows = [(c.waiting, c.running, c.scheduled, c.dead, c.blocked) for c in counts]
    return Counts(*map(sum, zip(*rows, strict=True)))


def _check_task(queue: str, task: str | None) -> None:
    limits.check_name("queue", queue)
    if task is None:
        return
    limits.check_name("task", task)
    if group_source(queue):
        raise ConfigError(f"{queue!r} is a group of a topic, which has no tasks: leave task out")
