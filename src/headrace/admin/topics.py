"""Topics: what is in them, how far their groups are, and keys that have come to a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from headrace.admin.bodies import EventInfo, opened
from headrace.admin.desk import Desk
from headrace.admin.queues import total
from headrace.admin.stats import read_stats
from headrace.admin.workers import read_workers
from headrace.client.job import to_datetime
from headrace.client.places import positions_of, read_logs
from headrace.core import ids, limits
from headrace.core.job import FORMAT, Envelope
from headrace.core.kinds import named
from headrace.core.options import to_ms
from headrace.core.sources import group_queue, log_source
from headrace.core.topic import GROUP_GONE_AFTER, OnFailure, Place, check_place
from headrace.errors import ConfigError, GroupNotFound

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.topics import GroupState, LoggedEvent, StoppedKey


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One of the logs that a topic consists of."""

    log: str
    length: int
    """How many events it holds, settled or not."""


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group of a topic, in all shards together."""

    name: str
    ordered: bool
    on_failure: OnFailure
    behind: int
    """Events that it has not taken out of the log yet; also part of `waiting`."""
    waiting: int
    running: int
    scheduled: int
    """To be handled again later."""
    blocked: int
    """Behind others of their key."""
    dead: int
    oldest: datetime | None
    """When the oldest event that is not settled was published; None if there is none."""
    age: float | None
    """How many seconds ago that was."""
    last_seen: datetime
    """When a worker last looked for work for it, give or take a minute."""
    gone: bool
    """Whether that is so long ago that the log is no longer kept for it."""
    stopped_keys: int
    """How many keys are stopped or failed, because an event of theirs went dead."""
    paused: bool

    @classmethod
    def of(
        cls, states: Sequence[GroupState], now_ms: int, gone_after_ms: int, *, paused: bool
    ) -> GroupInfo:
        """From what it is in each shard."""
        counts = total(state.counts for state in states)
        oldest = [state.oldest_ms for state in states if state.oldest_ms is not None]
        seen_ms = max(state.seen_ms for state in states)
        return cls(
            name=states[0].name,
            ordered=states[0].ordered,
            on_failure=states[0].on_failure,
            behind=sum(state.behind for state in states),
            waiting=counts.waiting,
            running=counts.running,
            scheduled=counts.scheduled,
            blocked=counts.blocked,
            dead=counts.dead,
            oldest=to_datetime(min(oldest)) if oldest else None,
            age=max(0.0, (now_ms - min(oldest)) / 1000) if oldest else None,
            last_seen=to_datetime(seen_ms),
            gone=now_ms - seen_ms > gone_after_ms,
            stopped_keys=sum(state.stopped_keys for state in states),
            paused=paused,
        )


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its groups, by name."""

    name: str
    length: int
    """How many events it holds, settled or not."""
    shards: tuple[ShardInfo, ...]
    groups: tuple[GroupInfo, ...]
    published: int
    """How many were published in the last hour, as far as the app records events."""
    dropped: int
    """How many `max_length` pushed out in the last hour before all groups had settled them."""


@dataclass(frozen=True, slots=True)
class StoppedKeyInfo:
    """A key of an ordered group, of which an event went dead."""

    key: str
    state: Literal["blocked", "failed"]
    """Whether later events wait, or go dead too."""
    event: str
    """The id of the one that went dead."""
    since: datetime
    waiting: int
    """How many later ones wait behind it."""

    @classmethod
    def of(cls, stopped: StoppedKey) -> StoppedKeyInfo:
        event, since = ids.to_text(stopped.event), to_datetime(stopped.since_ms)
        return cls(stopped.key, stopped.state, event, since, stopped.waiting)


class TopicAdmin(Desk):
    """Looking at topics, moving and removing their groups, letting stopped keys go on."""

    async def topics(self) -> list[TopicInfo]:
        """All topics that were ever published to, that a group joined, or that the app declares, by
        name."""
        known = {log_source(log)[0] for log in await (await self._store()).logs()}
        return [await self.topic(name) for name in sorted(known | self._app.topics.keys())]

    async def topic(self, name: str) -> TopicInfo:
        """One topic; `TopicNotFound` if there is none of that name."""
        store, logs = await self._store(), await self._logs_of(name)
        shards = tuple([ShardInfo(log, await store.length(log)) for log in logs])
        found: dict[str, list[GroupState]] = {}
        paused: set[str] = set()
        for log in logs:
            for state in await store.groups(log):
                found.setdefault(state.name, []).append(state)
                if (await store.control(f"{state.name}{log}")).paused:
                    paused.add(state.name)
        now_ms, gone_ms = await store.time_ms(), self._gone_after_ms(name)
        groups = [
            GroupInfo.of(found[group], now_ms, gone_ms, paused=group in paused)
            for group in sorted(found)
        ]
        length, counted = sum(shard.length for shard in shards), await _last_hour(store, logs)
        return TopicInfo(name, length, shards, tuple(groups), counted["sent"], counted["dropped"])

    async def read(
        self, topic: str, after: Place | None = None, limit: int = 100
    ) -> list[EventInfo]:
        """Up to `limit` events of a topic, from the oldest kept, after the one with this id, or
        from this time on. Changes nothing for any group, and needs no event type."""
        limits.check_count("limit", limit)
        if after is not None:
            check_place("after", after, self._app.clock.now_ms())
        store, logs = await self._store(), await self._logs_of(topic)
        declared = self._app.topics.get(topic)
        kind = None if declared is None else named(declared.event_type)
        return [_info(topic, each, kind) for each in await read_logs(store, logs, after, limit)]

    async def rewind(self, topic: str, group: str, to: Place) -> None:
        """Have a group handle what comes from this place on, back or forth: "start", "new", an
        event's id or a time. What it holds already, it still handles. `TopicNotFound`,
        `GroupNotFound` or `EventNotFound` if there is no such thing."""
        check_place("to", to, self._app.clock.now_ms())
        store, logs = await self._store(), await self._logs_of(topic)
        if topic in self._app.topics:
            await self._app.topics[topic].gather_groups(await self._app.session())
        queues = await self._queues_of(topic, group)
        places = dict(zip(logs, await positions_of(store, logs, to), strict=True))
        for queue in queues:
            await store.rewind(queue, places[queue.removeprefix(group)])

    async def remove_group(self, topic: str, group: str, *, force: bool = False) -> None:
        """Forget a group with all that it holds, its dead events included. Refused while a running
        worker serves it, unless `force`. Whoever starts later with an app that declares it, and
        works or publishes, makes it anew: take the subscription out of the code first."""
        store, queues = await self._store(), await self._queues_of(topic, group)
        for worker in [] if force else await read_workers(store):
            if not worker.queues.keys().isdisjoint(queues):
                raise ConfigError(
                    f"worker {worker.name!r} serves group {group!r} of topic {topic!r}: stop it "
                    "first, or remove the group by force"
                )
        removed = group_queue(topic, group)
        (await self._app.session()).removed.add(removed)
        if not any([await store.disband(queue) for queue in queues]):
            raise GroupNotFound(removed)

    async def stopped_keys(
        self, topic: str, group: str, *, limit: int = 1000
    ) -> list[StoppedKeyInfo]:
        """Keys of an ordered group that are stopped or failed, because an event of theirs went
        dead, by name."""
        limits.check_count("limit", limit)
        store, queues = await self._store(), await self._queues_of(topic, group)
        found = [each for queue in queues for each in await store.stopped_keys(queue, limit)]
        return [StoppedKeyInfo.of(each) for each in sorted(found, key=lambda k: k.key)[:limit]]

    async def free_key(self, topic: str, group: str, key: str) -> bool:
        """Let the events of a stopped or failed key be handled again: those that wait go on, those
        that are dead stay so until they are replayed. False if the key was neither."""
        store, queues = await self._store(), await self._queues_of(topic, group)
        return any([await store.free_key(queue, key) for queue in queues])

    def _gone_after_ms(self, topic: str) -> int:
        declared = self._app.topics.get(topic)
        if declared is not None:
            return declared.options.gone_after_ms
        return to_ms("group_gone_after", GROUP_GONE_AFTER)


async def _last_hour(store: Store, logs: Iterable[str]) -> Counter[str]:
    """What was counted of all shards, by kind."""
    found: Counter[str] = Counter()
    for minute in await read_stats(store, logs, 60):
        found.update(minute.counts)
    return found


def _info(topic: str, logged: LoggedEvent, kind: str | None) -> EventInfo:
    """The event; of bytes that are none, those bytes."""
    envelope = opened(logged.envelope)
    if envelope is None:
        return EventInfo.of(logged.key, Envelope(FORMAT, logged.key, f"@{topic}", logged.envelope))
    return EventInfo.of(logged.key, envelope, kind)
