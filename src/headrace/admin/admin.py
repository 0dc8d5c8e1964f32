"""`app.admin`: each question and deed is one method; what it is about has a file of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.admin.dead import PAGE, DeadInfo, Selection, matching, since_ms
from headrace.admin.queues import QueueInfo
from headrace.core import ids, limits
from headrace.core.ids import JobKey
from headrace.core.job import State, decode_past
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import DeadJob, Sighting

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.store.contract import Store

Since = datetime | timedelta
Verb = Callable[[str, Sequence[JobKey]], Awaitable[list[bool]]]


class Admin:
    """What people ask and do about the queues and jobs of one app's store. Holds nothing: each call
    asks the store."""

    def __init__(self, app: Headrace) -> None:
        self._app = app

    # Queues

    async def queues(self) -> list[QueueInfo]:
        """All queues that were ever sent to or that the app's tasks use, by name."""
        return [await self.queue(name) for name in await self._queue_names()]

    async def queue(self, name: str) -> QueueInfo:
        """One queue; all zero if nothing was ever sent to it."""
        limits.check_name("queue", name)
        return QueueInfo.of(name, await (await self._store()).count(name))

    # Dead jobs

    async def dead(
        self,
        queue: str | None = None,
        *,
        reason: str | None = None,
        task: str | None = None,
        since: Since | None = None,
        limit: int = 100,
    ) -> list[DeadInfo]:
        """Dead jobs of a queue, or of all queues, the latest first. `since` is a moment, or how
        long ago at most."""
        limits.check_count("limit", limit)
        store = await self._store()
        selection = Selection(reason, task, await since_ms(store, since))
        found: list[DeadInfo] = []
        for name in await self._queue_names(queue):
            found += [
                DeadInfo.of(name, job) for job in await _latest(store, name, selection, limit)
            ]
        found.sort(key=lambda info: info.died, reverse=True)
        return found[:limit]

    async def dead_job(self, id: str, queue: str | None = None) -> DeadInfo:
        """One dead job, in whichever queue it is; `JobNotFound` if it is not dead (any more). Its
        `died` is the end of its last attempt, a moment before the store took it for dead."""
        store, key = await self._store(), ids.to_key(id)
        for name in await self._queue_names(queue):
            (sighting,) = await store.look(name, [key], bodies=True)
            if sighting is not None and sighting.state is State.DEAD:
                job = _seen(key, sighting) or await _searched(store, name, key)
                if job is not None:
                    return DeadInfo.of(name, job)
        raise JobNotFound(id)

    async def replay(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        *,
        reason: str | None = None,
        task: str | None = None,
        since: Since | None = None,
    ) -> int:
        """Send dead jobs again, as they were, with a clean past; the number of them. Named by id,
        or else all that fit: at least a queue or a condition must be given. A job that is not dead
        (any more) is left alone, so asking twice replays once."""
        verb = (await self._store()).replay
        return await self._apply(verb, ids, queue, reason, task, since)

    async def purge(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        *,
        reason: str | None = None,
        task: str | None = None,
        since: Since | None = None,
    ) -> int:
        """Forget dead jobs, chosen as in `replay`; the number of them."""
        verb = (await self._store()).purge
        return await self._apply(verb, ids, queue, reason, task, since)

    async def _apply(
        self,
        verb: Verb,
        named: str | Iterable[str] | None,
        queue: str | None,
        reason: str | None,
        task: str | None,
        since: Since | None,
    ) -> int:
        conditions = (reason, task, since)
        if named is not None:
            if conditions != (None, None, None):
                raise ConfigError("give ids, or reason=, task= and since=, not both")
            return await self._apply_to(verb, [named] if isinstance(named, str) else named, queue)
        if queue is None and conditions == (None, None, None):
            raise ConfigError("say which dead jobs: ids, queue=, reason=, task= or since=")
        store = await self._store()
        selection = Selection(reason, task, await since_ms(store, since))
        done = 0
        for name in await self._queue_names(queue):
            async for jobs in matching(store, name, selection):
                if jobs:
                    done += sum(await verb(name, [job.key for job in jobs]))
        return done

    async def _apply_to(self, verb: Verb, named: Iterable[str], queue: str | None) -> int:
        keys = list(dict.fromkeys(ids.to_key(id) for id in named))
        total = len(keys)
        for name in await self._queue_names(queue):
            # Each queue in turn takes those that are dead there and leaves the rest to the others.
            left: list[JobKey] = []
            for start in range(0, len(keys), PAGE):
                batch = keys[start : start + PAGE]
                taken = await verb(name, batch)
                left += [key for key, was_dead in zip(batch, taken, strict=True) if not was_dead]
            keys = left
        return total - len(keys)

    async def _queue_names(self, only: str | None = None) -> list[str]:
        if only is not None:
            return [limits.check_name("queue", only)]
        known = await (await self._store()).queues()
        return sorted({*known, *self._app.queues})

    async def _store(self) -> Store:
        return (await self._app.session()).store


async def _latest(store: Store, queue: str, selection: Selection, limit: int) -> list[DeadJob]:
    found: list[DeadJob] = []
    async with aclosing(matching(store, queue, selection, min(limit, PAGE))) as pages:
        async for jobs in pages:
            found += jobs
            if len(found) >= limit:
                break
    return found[:limit]


def _seen(key: JobKey, sighting: Sighting) -> DeadJob | None:
    """What a look tells of a dead job; None if it had no attempt that dates its end."""
    attempts = decode_past(sighting.past).attempts
    if not attempts:
        return None
    died_ms = attempts[-1].ended_ms
    return DeadJob(key, died_ms, sighting.reason, sighting.envelope, sighting.past)


async def _searched(store: Store, queue: str, key: JobKey) -> DeadJob | None:
    async with aclosing(matching(store, queue, Selection())) as pages:
        async for jobs in pages:
            for job in jobs:
                if job.key == key:
                    return job
    return None
