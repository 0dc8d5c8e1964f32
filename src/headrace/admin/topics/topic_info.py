"""What is known of a topic, of its groups, and of stopped keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from headrace.admin.queues import moment_of, total
from headrace.admin.stats import read_stats
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.core.topic.subscription import OnFailure

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.topics import GroupState, StoppedKey


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One of the logs that a topic consists of."""

    log: str
    """The name of the log."""
    length: int
    """How many events it holds, settled or not."""


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group of a topic, in all shards together."""

    name: str
    """The name of the group."""
    ordered: bool
    """Whether events of one key are handled one after the other."""
    on_failure: OnFailure
    """What a dead event does to later ones of its key."""
    lag: int
    """Events that it has neither handled nor given up, wherever they wait."""
    behind: int
    """Events that it has not taken out of the log yet; also part of `waiting`."""
    waiting: int
    """For a worker."""
    running: int
    """In a worker."""
    scheduled: int
    """To be handled again later."""
    blocked: int
    """Behind others of their key."""
    dead: int
    """Given up, and kept."""
    oldest: datetime | None
    """When the oldest event that is not settled was published; None if there is none."""
    age: float | None
    """How many seconds ago that was."""
    last_seen: datetime
    """When a worker last read it, give or take a minute."""
    gone: bool
    """Whether that is so long ago that the log no longer keeps events for it."""
    stopped_keys: int
    """How many keys a dead event has stopped or failed."""
    paused: bool
    """Whether the group is paused."""
    stopped_events: int = 0
    """How many events wait behind stopped keys; part of `blocked`. Of more than a thousand keys
    in a shard, those behind a thousand of them."""
    stopped_since: datetime | None = None
    """When the first of those keys was stopped."""
    stopped_age: float | None = None
    """How many seconds ago that was."""

    @classmethod
    def of(
        cls, states: Sequence[GroupState], now_ms: int, gone_after_ms: int, *, paused: bool
    ) -> GroupInfo:
        """From its state in each shard."""
        counts = total(state.counts for state in states)
        oldest = [state.oldest_ms for state in states if state.oldest_ms is not None]
        since = [state.stopped_since_ms for state in states if state.stopped_since_ms is not None]
        seen_ms = max(state.seen_ms for state in states)
        return cls(
            name=states[0].name,
            ordered=states[0].ordered,
            on_failure=states[0].on_failure,
            lag=counts.waiting + counts.running + counts.scheduled + counts.blocked,
            behind=sum(state.behind for state in states),
            waiting=counts.waiting,
            running=counts.running,
            scheduled=counts.scheduled,
            blocked=counts.blocked,
            dead=counts.dead,
            oldest=to_datetime(min(oldest)) if oldest else None,
            age=_age(oldest, now_ms),
            last_seen=to_datetime(seen_ms),
            gone=now_ms - seen_ms > gone_after_ms,
            stopped_keys=sum(state.stopped_keys for state in states),
            paused=paused,
            stopped_events=sum(state.stopped_events for state in states),
            stopped_since=to_datetime(min(since)) if since else None,
            stopped_age=_age(since, now_ms),
        )


def _age(moments: Sequence[int], now_ms: int) -> float | None:
    """Seconds since the first of these."""
    return max(0.0, (now_ms - min(moments)) / 1000) if moments else None


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How many events of a group are in each state, in one shard."""

    name: str
    """Of its queue there, such as `billing@orders#1`."""
    waiting: int
    """For a worker."""
    running: int
    """In a worker."""
    scheduled: int
    """For a retry."""
    blocked: int
    """Behind others of their key."""
    dead: int
    """Given up, and kept."""
    stopped_keys: int = 0
    """Keys that a dead event has stopped."""
    stopped_events: int = 0
    """Those that wait behind stopped keys."""
    stopped_since: datetime | None = None
    """Since when the first of them is."""
    last_died: datetime | None = None
    """When the latest of the dead ones died."""

    @classmethod
    def of(cls, log: str, state: GroupState) -> GroupCounts:
        now = state.counts
        held = (now.waiting, now.running, now.scheduled, now.blocked, now.dead)
        stopped = (state.stopped_keys, state.stopped_events, moment_of(state.stopped_since_ms))
        return cls(f"{state.name}{log}", *held, *stopped, moment_of(state.last_died_ms))

    @property
    def total(self) -> int:
        return self.waiting + self.running + self.scheduled + self.blocked + self.dead


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its groups, by name."""

    name: str
    """The name of the topic."""
    length: int
    """How many events it holds, settled or not."""
    shards: tuple[ShardInfo, ...]
    """The logs that it consists of."""
    groups: tuple[GroupInfo, ...]
    """Its groups, by name."""
    published: int
    """How many were published in the last hour, as far as the app records events."""
    dropped: int
    """How many `max_length` pushed out in the last hour before all groups had settled them."""


@dataclass(frozen=True, slots=True)
class StoppedKeyInfo:
    """A key of an ordered group that a dead event has stopped."""

    key: str
    """The key."""
    state: Literal["blocked", "failed"]
    """Whether later events wait, or go dead too."""
    event: str
    """The id of the one that went dead."""
    since: datetime
    """When it was stopped."""
    waiting: int
    """How many later ones wait behind it."""

    @classmethod
    def of(cls, stopped: StoppedKey, masks: Masks = NOTHING_HIDDEN) -> StoppedKeyInfo:
        event, since = ids.to_text(stopped.event), to_datetime(stopped.since_ms)
        return cls(masks.name(stopped.key), stopped.state, event, since, stopped.waiting)


@dataclass(frozen=True, slots=True)
class _Shard:
    """A log and its groups, as they were read."""

    log: str
    length: int
    groups: list[GroupState]

    @property
    def queues(self) -> list[str]:
        return [f"{group.name}{self.log}" for group in self.groups]


async def _read(store: Store, logs: Sequence[str]) -> dict[str, _Shard]:
    if not logs:
        return {}
    lengths, groups = await store.lengths(logs), await store.groups(logs)
    return {log: _Shard(log, lengths[log], groups[log]) for log in logs}


async def read_topics(
    store: Store, logs: Mapping[str, Sequence[str]], gone_after_ms: Mapping[str, int]
) -> list[TopicInfo]:
    """The topics named in `gone_after_ms`, each with the logs that it has in `logs`."""
    shards = await _read(store, [log for name in gone_after_ms for log in logs[name]])
    queues = [queue for shard in shards.values() for queue in shard.queues]
    states = zip(queues, await store.survey(queues) if queues else [], strict=True)
    paused = {queue for queue, state in states if state.paused}
    now_ms = await store.time_ms()
    counted: Counter[tuple[str, str]] = Counter()
    for minute in await read_stats(store, list(shards), 60, now_ms):
        counted.update({(minute.queue, kind): count for kind, count in minute.counts.items()})
    return [
        TopicInfo(
            name,
            length=sum(shards[log].length for log in logs[name]),
            shards=tuple(ShardInfo(log, shards[log].length) for log in logs[name]),
            groups=_groups([shards[log] for log in logs[name]], paused, now_ms, gone_ms),
            published=sum(counted[log, "sent"] for log in logs[name]),
            dropped=sum(counted[log, "dropped"] for log in logs[name]),
        )
        for name, gone_ms in gone_after_ms.items()
    ]


def _groups(
    shards: Sequence[_Shard], paused: set[str], now_ms: int, gone_ms: int
) -> tuple[GroupInfo, ...]:
    """By name, each paused if it is in any of the shards."""
    found: dict[str, list[GroupState]] = {}
    for shard in shards:
        for state in shard.groups:
            found.setdefault(state.name, []).append(state)
    return tuple(
        GroupInfo.of(
            found[name],
            now_ms,
            gone_ms,
            paused=any(f"{name}{shard.log}" in paused for shard in shards),
        )
        for name in sorted(found)
    )
