"""What a topic declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, get_type_hints

import msgspec

from headrace.core.bounds import (
    TopicOverflow,
    check_count,
    check_flag,
    check_label,
    check_overflow,
)
from headrace.core.clock import Duration, epoch_ms, to_ms
from headrace.core.job import ids
from headrace.core.payload.codecs import Codec, CodecName
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.queue_names import check_topic
from headrace.core.topic.schema import Upcast, Upcasts
from headrace.errors import ConfigError

Place = str | datetime
"""A place in a topic: "new", "start", the id of an event, or a time."""

RETENTION = timedelta(days=1)
GROUP_GONE_AFTER = timedelta(days=7)
MAX_SHARDS = 1024
_LEAST_GONE_AFTER = 60.0
_FAST_CLOCK_MS = 60_000


class TopicKwargs(TypedDict, total=False):
    """What `app.topic(...)` takes beside name, event type and key."""

    retention: Duration
    """How long an event stays at least: seconds or a timedelta; a day unless said."""
    shards: int
    """How many logs share the events, for Redis Cluster; 1 unless said."""
    max_length: int | None
    """How many events the topic holds; no limit unless said."""
    overflow: TopicOverflow
    """What happens to an event too many: "reject", the default, raises `TopicFull`; "block" waits;
    "drop_oldest" and "drop_newest" drop one."""
    codec: CodecName | Codec
    """How events are encoded: "msgpack", "json", "raw", "protobuf", or an `EventCodec`. The app's
    unless said."""
    version: int
    """The version of the event type, from 1, the default."""
    upcast: Upcast | Upcasts | None
    """Makes events of older versions into those of this one: a function, or one for each
    version."""
    source: str | None
    """The name of the publisher, unless `publish` gives another."""
    max_payload: int | None
    """Bytes that an event may take. The app's unless said."""
    group_gone_after: Duration
    """How long a group without workers still holds events back: seconds or a timedelta; 7 days
    unless said."""
    require_key: bool
    """Whether an event without a key is refused; False unless said."""
    compress: Compression | None
    compress_threshold: int | None
    offload: Offload | None


class TopicOptions(msgspec.Struct, frozen=True):
    """What `app.topic(...)` declares of a topic's log. Checked here, so that a wrong option fails
    at import."""

    name: str
    shards: int = 1
    retention: Duration = RETENTION
    max_length: int | None = None
    overflow: TopicOverflow = "reject"
    source: str | None = None
    max_payload: int | None = None
    group_gone_after: Duration = GROUP_GONE_AFTER
    require_key: bool = False
    """Whether an event without a key is refused."""

    def __post_init__(self) -> None:
        where = f"topic {check_topic('topic name', self.name)!r}: "
        to_ms(f"{where}retention", self.retention)
        _check_gone_after(where, self.group_gone_after)
        if check_count(f"{where}shards", self.shards) > MAX_SHARDS:
            raise ConfigError(f"{where}shards can be up to {MAX_SHARDS}, not {self.shards!r}")
        if self.source is not None:
            check_label(f"{where}source", self.source)
        if self.max_payload is not None:
            check_count(f"{where}max_payload", self.max_payload)
        check_flag(f"{where}require_key", self.require_key)
        _check_overflow(where, self)

    @property
    def retention_ms(self) -> int:
        """How long an event stays in the log at least."""
        return to_ms("retention", self.retention)

    @property
    def gone_after_ms(self) -> int:
        """How long a group that no worker serves holds the log back."""
        return to_ms("group_gone_after", self.group_gone_after)

    @property
    def most_per_shard(self) -> int | None:
        """How many events each log may hold, so that all together hold `max_length` at most."""
        return None if self.max_length is None else self.max_length // self.shards


def _check_gone_after(where: str, after: Duration) -> None:
    if to_ms(f"{where}group_gone_after", after) < _LEAST_GONE_AFTER * 1000:
        raise ConfigError(
            f"{where}group_gone_after must be at least {_LEAST_GONE_AFTER:g} seconds, not "
            f"{after!r}: that a group has a worker is written only every few seconds, and with "
            "less, events of a group that is served could go"
        )


def _check_overflow(where: str, options: TopicOptions) -> None:
    check_overflow(where, options.overflow, options.max_length, "topic")
    if options.max_length is None:
        return
    if check_count(f"{where}max_length", options.max_length) < options.shards:
        raise ConfigError(
            f"{where}max_length is shared by {options.shards} shards: it must be at least that"
        )


def check_place(what: str, place: object, now_ms: int) -> Place:
    """`place` if it can be a place in a topic: a time must have come by now, give or take a
    minute."""
    if isinstance(place, datetime):
        if epoch_ms(what, place) > now_ms + _FAST_CLOCK_MS:
            raise ConfigError(
                f"{what} is a time in the future, {place.isoformat()}: no event can be there yet; "
                "give a time that has passed, or 'new' for what is published from now on"
            )
        return place
    if not isinstance(place, str):
        raise ConfigError(
            f"{what} must be 'new', 'start', an event's id or a datetime, not {place!r}"
        )
    try:
        ids.to_id(place)
    except ConfigError:
        raise ConfigError(f"{what} {place!r} cannot be an event's id") from None
    return place


def check_known(
    what: str, options: Mapping[str, Any], known: type, hints: Mapping[str, str]
) -> None:
    """Refuse an option that `known`, a TypedDict, does not have; `hints` say what to do instead."""
    names = get_type_hints(known)
    for name in sorted(options.keys() - names.keys()):
        hint = hints.get(name) or f"it takes {', '.join(names)}"
        raise ConfigError(f"{what} has no {name!r}: {hint}")


def checked_key(where: str, key: object) -> Callable[[Any], str | None] | None:
    """`key` if it can make the key of an event."""
    if key is None or callable(key):
        return key
    raise ConfigError(
        f"{where}key must be a function of the event that returns a text, such as "
        f"lambda event: event.order_id, not {key!r}"
    )
