"""The Redis store's verbs for topics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.envelope import peek_id
from headrace.core.job.ids import to_text
from headrace.core.job.parcel import Parcel
from headrace.core.queue_names import is_log
from headrace.core.topic.subscription import OnFailure
from headrace.errors import ConfigError, EventNotFound, GroupNotFound
from headrace.store.redis import encoding, script_stubs
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.history import RedisHistory
from headrace.store.topics import (
    Bound,
    Group,
    GroupState,
    LoggedEvent,
    Position,
    Published,
    StoppedKey,
    Trimmed,
)
from headrace.store.values import IdempotencyKey, QueueState

_DISBANDED_FOR = 3600
_TRIM_MOST = 5000
_TICKET_MS = 1000
_CURSOR = re.compile(r"\d+-\d+")
_RECORD = re.compile(rb"[01] [a-z_]+ [0-9]{1,18}")


class RedisTopics(RedisHistory):
    """See `headrace.store.topics.TopicStore`."""

    def member(self, queue: str) -> str:
        """What this process wants of a queue's group, as scripts write it; empty for an ordinary
        queue."""
        if "@" not in queue:
            return ""
        return _record(self._joined.get(queue, Group()))

    def is_ordered(self, queue: str) -> bool:
        group = self._joined.get(queue)
        return group is not None and group.ordered

    async def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> Published:
        if not events:
            return Published(0)
        links = self.links()
        if not self.is_announced(log):
            await self.announce(links.send, log)
        each, parcels = encoding.of_events(events)
        put = await self.confirming_link(confirm) if confirm else links.put
        taken, dropped, *noted = await script_stubs.publish(
            put,
            self.keys(log),
            events=self.events_kept(log),
            may_exist=may_exist,
            most=bound.most if bound else 0,
            drops=_drops(bound),
            gone=bound.gone_after_ms if bound else 0,
            each=each,
            parcels=parcels,
            idempotency=idempotency,
        )
        if not noted:
            return Published(taken, (), dropped)
        known = tuple(at - 1 for at in noted if at > 0)
        return Published(taken, known, dropped, tuple(-at - 1 for at in noted if at < 0))

    async def join(self, queue: str, group: Group, begin: Position) -> bool:
        again = queue in self._joined
        if not self.is_announced(queue):
            await self.announce(self.links().send, queue)
        kind, value = _place(begin)
        is_new = await script_stubs.join(
            self.links().send,
            self.keys(queue),
            member=_record(group),
            again=again,
            kind=kind,
            value=value,
        )
        if is_new < 0:
            raise EventNotFound(_log_of(queue), to_text(begin.event))
        self._joined[queue] = group
        return bool(is_new)

    async def disband(self, queue: str) -> bool:
        self._joined.pop(queue, None)
        there = await script_stubs.disband(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            expiry=_DISBANDED_FOR,
        )
        return bool(there)

    async def rewind(self, queue: str, to: Position) -> None:
        kind, value = _place(to)
        moved = await script_stubs.rewind(
            self.links().send,
            self.keys(queue),
            events=self.events_kept(queue),
            kind=kind,
            value=value,
        )
        if moved < 0:
            raise EventNotFound(_log_of(queue), to_text(to.event))
        if not moved:
            raise GroupNotFound(queue)

    async def position(self, log: str, place: Position) -> str:
        kind, value = _place(place)
        id = await script_stubs.position(self.links().ask, self.keys(log), kind=kind, value=value)
        if not id:
            raise EventNotFound(log, to_text(place.event))
        return id.decode()

    async def read(
        self, log: str, after: str = "", limit: int = 100, wait: float = 0.0
    ) -> list[LoggedEvent]:
        if after and not _CURSOR.fullmatch(after):
            raise ConfigError(f"{after!r} is not a cursor of a log: give that of an event")
        stream = self.keys(log).log
        start = f"({after}" if after else "-"
        entries = await self.links().ask.call(
            "XRANGE", stream, start, "+", "COUNT", limit, key=stream
        )
        if not entries and wait > 0:
            entries = await self.read_later(stream, after or "0-0", limit, wait)
        return [_logged(id, fields) for id, fields in entries]

    async def logs(self) -> list[str]:
        return [name for name in await self.names() if is_log(name)]

    async def lengths(self, logs: Sequence[str]) -> dict[str, int]:
        found_logs = await self.of_each(logs, script_stubs.logs)
        return {log: length for log, (length, _) in zip(logs, found_logs, strict=True)}

    async def groups(self, logs: Sequence[str]) -> dict[str, list[GroupState]]:
        found_logs = await self.of_each(logs, script_stubs.logs)
        members = [
            (log, name, record)
            for log, (_, pairs) in zip(logs, found_logs, strict=True)
            for name, record in sorted(self._members(log, pairs).items())
        ]
        queues = [f"{name}{log}" for log, name, _ in members]
        states = await self.survey(queues)
        figures = await self.of_each(queues, script_stubs.groups)
        found: dict[str, list[GroupState]] = {log: [] for log in logs}
        for (log, name, record), state, figure in zip(members, states, figures, strict=True):
            found[log].append(_state(name, record, state, figure))
        return found

    def _members(self, log: str, pairs: Sequence[bytes]) -> dict[str, bytes]:
        """The records of the groups of a log, by name; malformed ones are passed over."""
        key, records = self.keys(log).groups, dict(zip(pairs[::2], pairs[1::2], strict=True))
        found: dict[str, bytes] = {}
        for name in self.oddities.texts(key, records):
            if not name or "@" in name:
                self.oddities.note(key, f"{name!r} cannot be the name of a group")
            elif _RECORD.fullmatch(records[name.encode()]):
                found[name] = records[name.encode()]
            else:
                self.oddities.note(key, f"what it says of {name!r} is not that of a group")
        return found

    async def trim(self, log: str, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
        removed, more, *gone = await script_stubs.trim(
            self.links().ask,
            self.keys(log),
            retention=retention_ms,
            gone=gone_after_ms,
            most=_TRIM_MOST,
            ticket=_TICKET_MS,
        )
        names = self.oddities.texts(self.keys(log).groups, gone)
        return Trimmed(removed, bool(more), tuple(sorted(names)))

    async def stopped_keys(self, queue: str, limit: int = 1000) -> list[StoppedKey]:
        found = await script_stubs.stopped(self.links().ask, self.keys(queue))
        rows = zip(found[::3], found[1::3], found[2::3], strict=True)
        keys: list[StoppedKey] = []
        for row in rows:
            try:
                keys.append(_stopped(*row))
            except ValueError:
                self.oddities.note(self.keys(queue).stopped, f"{row[:2]!r} is no stopped key")
        return sorted(keys, key=lambda each: each.key)[:limit]

    async def free_key(self, queue: str, key: str) -> bool:
        was_stopped = await script_stubs.free(
            self.links().send, self.keys(queue), events=self.events_kept(queue), lane=key
        )
        return bool(was_stopped)


def _state(name: str, record: bytes, now: QueueState, figures: Sequence[int]) -> GroupState:
    ordered, policy, seen = record.decode().split(" ")
    behind, oldest, stopped, waiting, since = figures
    return GroupState(
        name=name,
        ordered=ordered == "1",
        on_failure=_policy(policy),
        behind=behind,
        counts=now.counts,
        oldest_ms=oldest or None,
        seen_ms=int(seen),
        stopped_keys=stopped,
        stopped_events=waiting,
        stopped_since_ms=since or None,
        last_died_ms=now.last_died_ms,
    )


def _drops(bound: Bound | None) -> int:
    """Which events are dropped of a log that is full, as the script has it."""
    if bound is None:
        return 0
    return 2 if bound.drops_newest else int(bound.drops_oldest)


def _record(group: Group) -> str:
    return f"{int(group.ordered)} {group.on_failure}"


def _place(position: Position) -> tuple[str, Argument]:
    if position.kind == "event":
        return position.kind, position.event
    return position.kind, position.at_ms


def _log_of(queue: str) -> str:
    return queue[queue.index("@") :]


def _policy(text: str) -> OnFailure:
    return text if text in ("block", "fail_key") else "skip"  # type: ignore[return-value]


def _logged(id: bytes, fields: list[bytes]) -> LoggedEvent:
    envelope = encoding.envelope_of(fields)
    return LoggedEvent(peek_id(envelope), int(id.split(b"-")[0]), envelope, id.decode())


def _stopped(lane: bytes, record: bytes, waiting: int) -> StoppedKey:
    state, since, event = record.split(b" ", 2)
    kind: Literal["blocked", "failed"] = "blocked" if state == b"blocked" else "failed"
    return StoppedKey(lane.decode(), kind, event, int(since), waiting)
