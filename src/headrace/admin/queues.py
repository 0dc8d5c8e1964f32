"""Queues: what is in them, and whether they go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from headrace.admin.context import AdminContext
from headrace.admin.recorded import recorded
from headrace.admin.workers import read_workers
from headrace.core import bounds as limits
from headrace.core.clock import to_datetime
from headrace.core.display import plural
from headrace.core.queue_names import check_topic, group_source, is_log, log_source
from headrace.errors import ConfigError, StoreFull
from headrace.store.values import Counts, QueueState

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
    oldest: datetime | None = None
    """When the job that has waited longest for a worker came in line; None if none waits."""
    age: float | None = None
    """How many seconds ago that was."""

    @classmethod
    def of(cls, name: str, states: Sequence[QueueState], now_ms: int) -> QueueInfo:
        """From what it is in each shard, which is one unless it is a group."""
        counts = total(state.counts for state in states)
        since = [state.oldest_ms for state in states if state.oldest_ms is not None]
        return cls(
            name,
            counts.waiting,
            counts.running,
            counts.scheduled,
            counts.dead,
            counts.blocked,
            any(state.paused for state in states),
            tuple(sorted(frozenset().union(*(state.paused_tasks for state in states)))),
            to_datetime(min(since)) if since else None,
            max(0.0, (now_ms - min(since)) / 1000) if since else None,
        )


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Some queues, by name."""

    queues: list[QueueInfo]
    total: int
    """How many there are, on this page and others."""
    cursor: str
    """Where the next page begins; empty after the last."""


class QueueAdmin(AdminContext):
    """Looking at queues, pausing and resuming them."""

    async def queues(self) -> list[QueueInfo]:
        """All queues that were ever sent to, that the app's tasks use, or in which something is
        paused, by name; `topics` lists the groups of topics."""
        return await self._surveyed(await self._listed())

    async def queue_page(
        self, search: str | None = None, after: str = "", limit: int = 100
    ) -> QueuePage:
        """As `queues`, those whose name contains `search`, in small letters or capitals, `limit` at
        a time: `after` is the cursor of the page before. At most five calls to the store, however
        many queues there are."""
        limits.check_count("limit", limit)
        wanted = (search or "").casefold()
        names = [name for name in await self._listed() if wanted in name.casefold()]
        following = [name for name in names if name > after]
        page = following[:limit]
        cursor = page[-1] if len(following) > limit else ""
        return QueuePage(await self._surveyed(page), len(names), cursor)

    async def queue(self, name: str) -> QueueInfo:
        """One queue; all zero if nothing was ever sent to it. Or a group, such as
        `billing@orders`, in all shards of its topic; paused if it is in any."""
        store, names = await self._store(), await self._queue_names(name)
        return QueueInfo.of(name, await store.survey(names), await store.time_ms())

    async def _listed(self) -> list[str]:
        """The names of those that `queues` lists."""
        store, names = await self._store(), await self._queue_names()
        kept = sorted((await store.kv_all(_PAUSED)).keys() - set(names))
        states = await store.survey(kept) if kept else []
        paused = [
            name
            for name, state in zip(kept, states, strict=True)
            if state.paused or state.paused_tasks
        ]
        return sorted([*names, *paused])

    async def _surveyed(self, names: Sequence[str]) -> list[QueueInfo]:
        if not names:
            return []
        store = await self._store()
        states, now_ms = await store.survey(names), await store.time_ms()
        return [
            QueueInfo.of(name, [state], now_ms) for name, state in zip(names, states, strict=True)
        ]

    @recorded
    async def pause(self, queue: str, task: str | None = None) -> None:
        """Have no more jobs of a queue started, or none of one task in it, until `resume`: by any
        worker, also one that starts later. What is running goes on. Neither has to exist yet. Of a
        group, such as `billing@orders`, no more events are handled; other groups go on."""
        _check_task(queue, task)
        await self._note_pause(queue, task, paused=True)
        store = await self._store()
        for name in await self._queue_names(queue):
            await store.pause(name, task or "")
        if not group_source(queue) and queue not in await store.queues():
            # For the list alone: a full store pauses all the same.
            with suppress(StoreFull):
                await store.kv_set(_PAUSED, queue, b"1")

    @recorded
    async def resume(self, queue: str, task: str | None = None) -> None:
        """Undo `pause`, of the queue or of one task in it; each by itself."""
        _check_task(queue, task)
        await self._note_pause(queue, task, paused=False)
        store = await self._store()
        for name in await self._queue_names(queue):
            await store.resume(name, task or "")

    async def _note_pause(self, queue: str, task: str | None, *, paused: bool) -> None:
        """For the record, if there is one: what it was."""
        if self._action is not None:
            now = await self.queue(queue)
            was = now.paused if task is None else task in now.paused_tasks
            if was is not paused:
                self._action.changed("paused", was, paused)

    @recorded
    async def remove_queue(self, name: str, force: bool = False) -> bool:
        """Forget a queue that nothing is sent to any more; False if there is none of this name. It
        may be one that the API would refuse and someone wrote into the store. A `ConfigError` if it
        holds jobs, dead ones included, or a running worker reads it, unless `force`: then the jobs
        are gone, and the worker makes the queue anew. One that the app declares is listed all the
        same."""
        _check_removable(name)
        store = await self._store()
        for worker in [] if force else await read_workers(store):
            if name in worker.queues:
                raise ConfigError(
                    f"worker {worker.name!r} reads queue {name!r}: stop it first, or remove the "
                    "queue by force"
                )
        held = await store.remove(name, force=force)
        if held:
            raise ConfigError(
                f"queue {name!r} holds {plural(held, 'job')}: let them end, cancel or purge them, "
                "or remove it with all of them by force"
            )
        return held is not None


def _check_removable(name: object) -> None:
    """Topics have verbs of their own; a name that no topic can have is removed as any other."""
    if not isinstance(name, str):
        raise ConfigError(f"the name of a queue is text, not {name!r}")
    source = group_source(name)
    if source is not None or (is_log(name) and _can_be_topic(log_source(name)[0])):
        raise ConfigError(f"{name!r} belongs to a topic: remove its groups instead")


def _can_be_topic(name: str) -> bool:
    try:
        return bool(check_topic("topic", name))
    except ConfigError:
        return False


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
