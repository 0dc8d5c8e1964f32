"""Queues: what they hold; pause, resume and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from headrace.admin.app import names_of
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
"""Key-value space with queues that were paused before anything was sent to them: stores do not list
those. Whether they still are paused, the store knows."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue, how many of its jobs are in each state, and what is paused."""

    name: str
    """The name of the queue or group."""
    waiting: int
    """For a worker."""
    running: int
    """In a worker."""
    scheduled: int
    """For later."""
    dead: int
    """Given up, and kept."""
    blocked: int = 0
    """Behind a key, a limit, a paused task or other jobs."""
    paused: bool = False
    """Whether the queue is paused."""
    paused_tasks: tuple[str, ...] = ()
    """Tasks that are paused in this queue, by name, whether or not the queue is."""
    oldest: datetime | None = None
    """When the job that has waited longest began to wait; None if none waits."""
    age: float | None = None
    """How many seconds ago that was."""
    last_died: datetime | None = None
    """When the latest of the dead jobs died."""
    concurrency: int | None = None
    """How many of its jobs run at a time, as the app declares it; None for any number."""

    @classmethod
    def of(
        cls, name: str, states: Sequence[QueueState], now_ms: int, concurrency: int | None = None
    ) -> QueueInfo:
        """From its state in each shard; only a group can have several."""
        counts = total(state.counts for state in states)
        since = [state.oldest_ms for state in states if state.oldest_ms is not None]
        died = [state.last_died_ms for state in states if state.last_died_ms is not None]
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
            moment_of(max(died, default=None)),
            concurrency,
        )


def moment_of(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else to_datetime(at_ms)


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Some queues, by name."""

    queues: list[QueueInfo]
    """The queues on it."""
    total: int
    """How many there are, on this page and others."""
    cursor: str
    """Where the next page begins; empty after the last."""


class QueueAdmin(AdminContext):
    """Lists, pauses, resumes and removes queues."""

    async def queues(self) -> list[QueueInfo]:
        """All queues that were ever sent to, that the app's tasks use, or in which something is
        paused, by name; `topics` lists the groups of topics."""
        return await self._surveyed(await self._listed())

    async def queue_page(
        self, search: str | None = None, after: str = "", limit: int = 100
    ) -> QueuePage:
        """As `queues`, those whose name contains `search`, ignoring case, `limit` at a time:
        `after` is the cursor of the page before. At most five calls to the store, however many
        queues there are.

        Args:
            search: A text in the name; case does not matter.
            after: The cursor of the page before.
            limit: How many at most.
        """
        limits.check_count("limit", limit)
        wanted = (search or "").casefold()
        names = [name for name in await self._listed() if wanted in name.casefold()]
        following = [name for name in names if name > after]
        page = following[:limit]
        cursor = page[-1] if len(following) > limit else ""
        return QueuePage(await self._surveyed(page), len(names), cursor)

    async def queue(self, name: str) -> QueueInfo:
        """One queue; all zero if nothing was ever sent to it. Or a group, such as
        `billing@orders`, in all shards of its topic; paused if it is in any.

        Args:
            name: The name of the queue or group.
        """
        store, names = await self._store(), await self._queue_names(name)
        states, now_ms = await store.survey(names), await store.time_ms()
        return QueueInfo.of(name, states, now_ms, self._concurrency(name))

    def _concurrency(self, name: str) -> int | None:
        declared = self._app.queue_settings.get(name)
        return None if declared is None else declared.concurrency

    async def names_like(self, name: str) -> list[str] | None:
        """None if this is one of `queues`, or a group of a topic; otherwise the names of all,
        one of them may be meant.

        Args:
            name: The name that someone gave.
        """
        names = await self._listed()
        return None if name in names or group_source(name) or is_log(name) else names

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
            QueueInfo.of(name, [state], now_ms, self._concurrency(name))
            for name, state in zip(names, states, strict=True)
        ]

    @recorded
    async def pause(self, queue: str, task: str | None = None) -> None:
        """Start no more jobs of a queue, or of one task in it, until `resume`: on no worker, also
        not on later ones. Running jobs go on. Neither has to exist yet. A group, such as
        `billing@orders`, handles no more events; other groups go on.

        Args:
            queue: A queue, or a group such as `billing@orders`.
            task: The name of a task: only its jobs in this queue.
        """
        _check_task(queue, task)
        await self._note_pause(queue, task, paused=True)
        store = await self._store()
        for name in await self._queue_names(queue):
            for each in names_of(self._app, task) or ("",):
                await store.pause(name, each)
        if not group_source(queue) and queue not in await store.queues():
            # Only for the list: a full store pauses all the same.
            with suppress(StoreFull):
                await store.kv_set(_PAUSED, queue, b"1")

    @recorded
    async def resume(self, queue: str, task: str | None = None) -> None:
        """Undo `pause`: of the queue, or of one task in it, which are independent.

        Args:
            queue: A queue, or a group such as `billing@orders`.
            task: The name of a task that was paused in this queue.
        """
        _check_task(queue, task)
        await self._note_pause(queue, task, paused=False)
        store = await self._store()
        for name in await self._queue_names(queue):
            for each in names_of(self._app, task) or ("",):
                await store.resume(name, each)

    async def _note_pause(self, queue: str, task: str | None, *, paused: bool) -> None:
        """Note for the record, if there is one, whether it was paused."""
        if self._action is not None:
            now = await self.queue(queue)
            was = now.paused if task is None else task in now.paused_tasks
            if was is not paused:
                self._action.changed("paused", was, paused)

    @recorded
    async def remove_queue(self, name: str, force: bool = False) -> bool:
        """Remove a queue that nothing is sent to any more; False if there is none of this name,
        which may be an invalid one. `ConfigError` if it holds jobs, dead ones included, or a
        running worker reads it, unless `force`: then the jobs are lost, also those that run, and
        the worker creates the queue again. A queue that the app declares is still listed.

        Args:
            name: The name of the queue.
            force: Whether to remove it with all its jobs.
        """
        _check_removable(name)
        store = await self._store()
        for worker in [] if force else await read_workers(store):
            if name in worker.queues:
                raise ConfigError(
                    f"worker {worker.name!r} reads queue {name!r}: stop it first, or remove the "
                    "queue with force=True (--force)"
                )
        held = await store.remove(name, force=force)
        if held:
            raise ConfigError(
                f"queue {name!r} holds {plural(held, 'job')}: let them end, cancel or purge them, "
                "or remove it with all of them: force=True (--force)"
            )
        return held is not None


def _check_removable(name: object) -> None:
    """Refuse logs and groups of topics, unless no topic can have the name."""
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
    """The sum of several counts."""
    rows = [(c.waiting, c.running, c.scheduled, c.dead, c.blocked) for c in counts]
    return Counts(*map(sum, zip(*rows, strict=True)))


def _check_task(queue: str, task: str | None) -> None:
    limits.check_name("queue", queue)
    if task is None:
        return
    limits.check_name("task", task)
    if group_source(queue):
        raise ConfigError(f"{queue!r} is a group of a topic, which has no tasks: leave task out")
