"""Questions and actions about topics, their groups, and stopped keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.admin.bodies import MOST_LISTED, MOST_SHOWN, opened
from headrace.admin.context import AdminContext
from headrace.admin.jobs.listing import READ_TOGETHER
from headrace.admin.recorded import recorded
from headrace.admin.topics.event_info import EventInfo
from headrace.admin.topics.topic_info import GroupCounts, StoppedKeyInfo, TopicInfo, read_topics
from headrace.admin.workers import read_workers
from headrace.client.topic.positions import positions_of, read_logs
from headrace.core import bounds as limits
from headrace.core.clock import to_ms
from headrace.core.job.envelope import FORMAT, Envelope
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.core.payload.kinds import named
from headrace.core.queue_names import group_queue
from headrace.core.topic.topic import GROUP_GONE_AFTER, Place, check_place
from headrace.errors import ConfigError, GroupNotFound, TopicNotFound

if TYPE_CHECKING:
    from headrace.store.topics import LoggedEvent, StoppedKey

_STOPPED_KEYS = 100_000
LOOKED_BACK = (timedelta(seconds=5), timedelta(minutes=5), timedelta(hours=6))
"""A log is read forward: the latest events are looked for from these times on."""
_READ = 200


class TopicAdmin(AdminContext):
    """Shows topics, reads events, moves and removes groups, frees stopped keys."""

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicInfo]:
        """All topics that were ever published to, that a group joined, or that the app declares, by
        name; or those of these names, as they come, `TopicNotFound` if one is missing. Six calls
        to the store.

        Args:
            names: The names of topics; all unless said.
        """
        logs = await self._logs_by_topic()
        wanted = sorted(logs) if names is None else list(dict.fromkeys(names))
        if missing := [name for name in wanted if name not in logs]:
            raise TopicNotFound(missing[0])
        gone_after_ms = {name: self._gone_after_ms(name) for name in wanted}
        return await read_topics(await self._store(), logs, gone_after_ms)

    async def group_counts(self) -> list[GroupCounts]:
        """How many events of each group are in each state, shard by shard. Two store calls."""
        store = await self._store()
        logs = await store.logs()
        found = await store.groups(logs) if logs else {}
        return [GroupCounts.of(log, each) for log in found for each in found[log]]

    async def topic_names(self) -> list[str]:
        """The names of all that `topics` lists; one call to the store."""
        return sorted(await self._logs_by_topic())

    async def topic(self, name: str) -> TopicInfo:
        """One topic; `TopicNotFound` if there is none of that name.

        Args:
            name: The name of the topic.
        """
        (found,) = await self.topics([name])
        return found

    async def read(
        self, topic: str, after: Place | None = None, limit: int = 100
    ) -> list[EventInfo]:
        """Up to `limit` events of a topic, from the oldest kept, after the one with this id, or
        from this time on. Changes nothing for any group, and needs no event type.

        Args:
            topic: The name of the topic.
            after: The id of an event, or an aware datetime; the oldest kept unless said.
            limit: How many at most.
        """
        return [event async for event in self.read_each(topic, after, limit)]

    async def read_each(
        self, topic: str, after: Place | None = None, limit: int = 100
    ) -> AsyncGenerator[EventInfo, None]:
        """What `read` returns, decoded one at a time.

        Args:
            topic: The name of the topic.
            after: The id of an event, or an aware datetime; the oldest kept unless said.
            limit: How many at most.
        """
        limits.check_count("limit", limit)
        if after is not None:
            check_place("after", after, self._app.clock.now_ms())
        logs = await self._logs_of(topic)
        for each in await read_logs(await self._store(), logs, after, limit):
            yield self._info(topic, each)

    async def latest_events(self, topic: str, limit: int = 20) -> list[EventInfo]:
        """The latest events of a topic, the last first, with data of up to 64 KiB; if more than
        200 come at once, those of a moment ago.

        Args:
            topic: The name of the topic.
            limit: How many at most.
        """
        limits.check_count("limit", limit)
        store, logs, now = await self._store(), await self._logs_of(topic), datetime.now(UTC)
        found: list[LoggedEvent] = []
        for back in (*LOOKED_BACK, None):
            place = None if back is None else now - back
            read = await read_logs(store, logs, place, _READ)
            if len(read) < _READ or not found:
                found = read
            if len(found) >= limit:
                break
        return [self._info(topic, each, MOST_LISTED) for each in found[: -limit - 1 : -1]]

    def _info(self, topic: str, logged: LoggedEvent, most: int = MOST_SHOWN) -> EventInfo:
        """The event; if its bytes cannot be read, an event with those as its data."""
        declared, envelope = self._app.topics.get(topic), opened(logged.envelope)
        kind = None if declared is None else named(declared.event_type)
        if envelope is None:
            envelope, kind = Envelope(FORMAT, logged.job_id, f"@{topic}", logged.envelope), None
        return EventInfo.of(logged.job_id, envelope, kind, self._redaction, most)

    @recorded
    async def rewind(self, topic: str, group: str, to: Place) -> None:
        """Move a group back or forward: to "start", "new", an event's id or a time. Events that it
        has already taken are still handled. `TopicNotFound`, `GroupNotFound` or `EventNotFound` if
        there is none.

        Args:
            topic: The name of the topic.
            group: The name of the group.
            to: "start", "new", the id of an event, or an aware datetime.
        """
        check_place("to", to, self._app.clock.now_ms())
        store, logs = await self._store(), await self._logs_of(topic)
        if topic in self._app.topics:
            await self._app.topics[topic].create_groups(await self._app.session())
        queues = await self._queues_of(topic, group)
        places = dict(zip(logs, await positions_of(store, logs, to), strict=True))
        for queue in queues:
            await store.rewind(queue, places[queue.removeprefix(group)])

    @recorded
    async def remove_group(self, topic: str, group: str, *, force: bool = False) -> None:
        """Remove a group with all its events, dead ones included. Refused while a running worker
        serves it, unless `force`. A worker or publisher that starts later with an app that declares
        the group creates it again: remove the subscription from the code first.

        Args:
            topic: The name of the topic.
            group: The name of the group.
            force: Whether to remove it although a worker serves it.
        """
        store, queues = await self._store(), await self._queues_of(topic, group)
        for worker in [] if force else await read_workers(store):
            if not worker.queues.keys().isdisjoint(queues):
                raise ConfigError(
                    f"worker {worker.name!r} serves group {group!r} of topic {topic!r}: stop it "
                    "first, or remove the group with force=True (--force)"
                )
        removed = group_queue(topic, group)
        (await self._app.session()).removed.add(removed)
        if not any([await store.disband(queue) for queue in queues]):
            raise GroupNotFound(removed)

    async def stopped_keys(
        self, topic: str, group: str, *, limit: int = 1000
    ) -> list[StoppedKeyInfo]:
        """Keys of an ordered group that a dead event has stopped or failed, by name.

        Args:
            topic: The name of the topic.
            group: The name of the group.
            limit: How many at most.
        """
        limits.check_count("limit", limit)
        store, queues = await self._store(), await self._queues_of(topic, group)
        found: list[tuple[StoppedKey, Masks]] = []
        for queue in queues:
            stopped = await store.stopped_keys(queue, limit)
            found += zip(stopped, await self._masks_of(queue, stopped), strict=True)
        found.sort(key=lambda each: each[0].key)
        return [StoppedKeyInfo.of(*each) for each in found[:limit]]

    async def _masks_of(self, queue: str, stopped: Sequence[StoppedKey]) -> list[Masks]:
        """What is hidden of the dead event of each key."""
        if not self._redaction.active:
            return [NOTHING_HIDDEN] * len(stopped)
        found: list[Masks] = []
        for start in range(0, len(stopped), READ_TOGETHER):
            keys = [each.event for each in stopped[start : start + READ_TOGETHER]]
            seen = await (await self._store()).get(queue, keys, bodies=True)
            found += [
                self._redaction.masks(opened(each.envelope) if each else None) for each in seen
            ]
        return found

    @recorded
    async def free_key(self, topic: str, group: str, key: str) -> bool:
        """Handle the events of a stopped or failed key again. Dead ones stay dead until they are
        replayed. False if the key was neither stopped nor failed.

        Args:
            topic: The name of the topic.
            group: The name of the group.
            key: The key that is stopped.
        """
        store, queues = await self._store(), await self._queues_of(topic, group)
        freed = [await store.free_key(queue, key) for queue in queues]
        if not any(freed) and self._redaction.active:
            # With redaction, the caller knows the key by another name.
            for queue in queues:
                stopped = await store.stopped_keys(queue, _STOPPED_KEYS)
                meant = [each.key for each in stopped if self._redaction.name(each.key) == key]
                freed += [await store.free_key(queue, each) for each in meant]
        return any(freed)

    def _gone_after_ms(self, topic: str) -> int:
        declared = self._app.topics.get(topic)
        if declared is not None:
            return declared.options.gone_after_ms
        return to_ms("group_gone_after", GROUP_GONE_AFTER)
