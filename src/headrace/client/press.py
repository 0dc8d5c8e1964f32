"""Makes parcels of the events of one publish; what they have in common is settled once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from headrace.client.context import running
from headrace.client.publishing import Prepared
from headrace.core.job import ids
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import Overrides
from headrace.core.job.ids import JobKey
from headrace.core.job.parcel import Parcel
from headrace.core.queue_names import shard_of
from headrace.core.task.labels import MAX_LABEL_BYTES, check_label
from headrace.core.topic.headers import trace_of
from headrace.core.topic.kinds import named
from headrace.core.topic.stamp import Stamp, Wishes
from headrace.errors import ConfigError, EventError, PayloadTooLarge

if TYPE_CHECKING:
    from headrace.client.topic import Topic


class Press:
    """`now_ms` is for envelopes that hold a moment. Made anew for each publish, and for each batch
    of a long one, for the ids tell the time."""

    def __init__(self, topic: Topic[Any], wishes: Wishes, now_ms: int | None) -> None:
        self._topic = topic.name
        self._task = topic.task
        self._logs = topic.logs
        self._only = topic.logs[0] if len(topic.logs) == 1 else None
        self._encode = topic.schema.encode
        self._most = topic.max_payload
        self._make_key = topic.make_key
        self._wishes = wishes
        self._delay_ms, self._at_ms = wishes.delay_ms, wishes.at_ms
        self._key = wishes.key
        self._overrides = _overrides(topic, wishes, now_ms)
        self._stamp = Stamp(topic.task, self._overrides)
        self._by_class = topic.names_classes and not wishes.overrides.kind
        self._stamps: dict[type, Stamp] = {}
        self._ids: Iterator[JobKey] = ids.new_keys()
        self.named = wishes.id is not None
        """Whether the caller chose the id."""

    def parcel(self, event: Any) -> Parcel:
        """The event on its way; `EventError` or `PayloadTooLarge` if it cannot be."""
        payload = self._encode(event)
        if len(payload) > self._most:
            raise PayloadTooLarge(self._task, len(payload), self._most)
        key = self._key
        if not key and self._make_key is not None:
            key = self._made_key(event)
        id = self._wishes.id or next(self._ids)
        stamp = self._stamp_of(type(event)) if self._by_class else self._stamp
        envelope = stamp.envelope(id, payload, key)
        constraints = Constraints(0, key) if key else NO_CONSTRAINTS
        return Parcel(id, envelope, self._delay_ms, self._at_ms, constraints)

    def log(self, parcel: Parcel) -> str:
        """Where the event belongs: by its key or, if it has none, by its id."""
        if self._only is not None:
            return self._only
        shards = len(self._logs)
        lane = parcel.constraints.lane
        return self._logs[shard_of(lane, shards) if lane else zlib.crc32(parcel.key) % shards]

    def prepared(self, event: Any) -> Prepared:
        """The event with the log it belongs to."""
        parcel = self.parcel(event)
        return Prepared(self.log(parcel), parcel, self.named)

    def _made_key(self, event: Any) -> str:
        assert self._make_key is not None
        try:
            key = self._make_key(event)
        except Exception as error:
            problem = f"its key= raised {type(error).__name__}: {error}"
            raise EventError(self._topic, problem) from error
        if key is None:
            return ""
        if _is_usual(key):
            return key
        try:
            return check_label("what key= returned", key)
        except ConfigError as error:
            raise EventError(self._topic, str(error)) from None

    def _stamp_of(self, kind: type) -> Stamp:
        stamp = self._stamps.get(kind)
        if stamp is None:
            overrides = msgspec.structs.replace(self._overrides, kind=named(kind))
            stamp = self._stamps[kind] = Stamp(self._task, overrides)
        return stamp


def _is_usual(key: object) -> TypeGuard[str]:
    """Whether it needs no closer look."""
    return (
        type(key) is str and 0 < len(key) <= MAX_LABEL_BYTES and key.isascii() and key.isprintable()
    )


def _overrides(topic: Topic[Any], wishes: Wishes, now_ms: int | None) -> Overrides:
    """What the envelopes say beside the event: as wished, as the topic declares, and as the run in
    which it is published passes on."""
    given = wishes.overrides
    headers, correlation = given.headers, given.correlation
    run = running.get()
    if run is not None:
        context = run.context()
        if "traceparent" not in headers:
            headers = {**trace_of(context.headers), **headers}
        if not correlation and context.delivery is not None:
            correlation = context.delivery.correlation_id or ""
    expires_ms = given.expires_ms
    if wishes.expires_in_ms is not None and now_ms is not None:
        expires_ms = now_ms + wishes.expires_in_ms
    return Overrides(
        headers=headers,
        expires_ms=expires_ms,
        sent_ms=now_ms if wishes.id is not None else None,
        kind=given.kind,
        source=given.source or topic.options.source or "",
        correlation=correlation,
        content=topic.schema.content,
        version=topic.schema.version,
    )
