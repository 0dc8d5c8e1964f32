"""What one publish says of its events, beside the events themselves; and their envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from headrace.core.bounds import MAX_OVERRIDES, check_label
from headrace.core.clock import Duration, epoch_ms, epoch_us, to_ms
from headrace.core.confirming import UNCONFIRMED, Confirm, Confirming, read_confirm
from headrace.core.job import ids
from headrace.core.job.envelope import FORMAT, Overrides
from headrace.core.job.ids import JobId
from headrace.core.topic.headers import checked_headers
from headrace.errors import ConfigError


class PublishManyKwargs(TypedDict, total=False):
    """What `topic.publish_many(...)` takes: the same for all of its events."""

    key: str | None
    """The key, instead of what the topic's `key` makes of the event."""
    headers: Mapping[str, str] | None
    """Texts by name that travel with it."""
    delay: Duration | None
    """How long from now it joins the topic: seconds or a timedelta. Nobody sees it until then."""
    at: datetime | None
    """When it joins the topic: an aware datetime."""
    expires: Duration | datetime | None
    """When it is no longer handled: seconds or a timedelta from now, or an aware datetime. In a
    group that has not begun it by then it is dead as `expired`."""
    occurred_at: datetime | None
    """When it happened, an aware datetime, if that is not now."""
    type: str | None
    """What kind of event it is; the name of its class unless said."""
    source: str | None
    """Who publishes it, instead of the topic's `source`."""
    correlation_id: str | None
    """What it belongs to. In a running handler, that of the event at hand unless said."""
    confirm: Confirm | None
    """"replicated" or "disk": this returns when a Redis replica, or the disk, has it."""


class PublishKwargs(PublishManyKwargs, total=False):
    """What `topic.publish(...)` takes."""

    id: str | None
    """An id of your own; a second event with the same id is not added."""


class PublishOptions(msgspec.Struct, frozen=True):
    """Checked options of one publish."""

    id: JobId | None = None
    key: str = ""
    delay_ms: int | None = None
    at_ms: int | None = None
    expires_in_ms: int | None = None
    confirm: Confirming = UNCONFIRMED
    overrides: Overrides = Overrides()

    @property
    def needs_time(self) -> bool:
        """Whether the envelope holds a moment that must be taken from the store's clock."""
        return self.expires_in_ms is not None


NO_OPTIONS = PublishOptions()


def publish_options(options: Mapping[str, Any]) -> PublishOptions:
    """The options of `publish`, checked; each may be None. `ConfigError` for a wrong one."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        _check_names(options)
        return NO_OPTIONS
    _check_names(given)
    if "delay" in given and "at" in given:
        raise ConfigError("publish(): give delay= or at=, not both")
    expires = given.get("expires")
    until = isinstance(expires, datetime)
    return PublishOptions(
        id=ids.to_id(given["id"]) if "id" in given else None,
        key=_label(given, "key"),
        delay_ms=to_ms("publish(delay=)", given["delay"]) if "delay" in given else None,
        at_ms=epoch_ms("publish(at=)", given["at"]) if "at" in given else None,
        expires_in_ms=None if expires is None or until else to_ms("publish(expires=)", expires),
        confirm=read_confirm("publish(confirm=)", given.get("confirm")),
        overrides=Overrides(
            headers=checked_headers(given["headers"]) if "headers" in given else {},
            expires_ms=epoch_ms("publish(expires=)", expires) if until else None,
            kind=_label(given, "type"),
            source=_label(given, "source"),
            correlation=_label(given, "correlation_id"),
            occurred_us=_occurred_us(given),
        ),
    )


def _check_names(options: Mapping[str, Any]) -> None:
    known = (*PublishManyKwargs.__annotations__, "id")
    for name in options:
        if name not in known:
            raise ConfigError(f"publish() has no {name!r}; it takes {', '.join(known)}")


def _label(given: Mapping[str, Any], name: str) -> str:
    return check_label(f"publish({name}=)", given[name]) if name in given else ""


def _occurred_us(given: Mapping[str, Any]) -> int | None:
    moment = given.get("occurred_at")
    return None if moment is None else epoch_us("publish(occurred_at=)", moment)


_encode = msgspec.msgpack.Encoder().encode
_ON_THE_WIRE = dict(
    zip(Overrides.__struct_fields__, Overrides.__struct_encode_fields__, strict=True)
)
# Of MessagePack: arrays and maps of up to 15 have their length in the first byte.
_ARRAY, _MAP, _LONG_MAP = 0x90, 0x80, 0xDE


class EnvelopeTemplate:
    """Makes envelopes that differ in id, event and key only; the rest is encoded once."""

    __slots__ = ("_keyed", "_plain", "_start", "_start_plain", "_task", "overrides")

    def __init__(self, task: str, overrides: Overrides) -> None:
        self.overrides = overrides
        fields = _encode(overrides)
        if len(fields) > MAX_OVERRIDES:
            raise ConfigError(
                f"publish(): headers and the like take {len(fields):,} bytes, at most "
                f"{MAX_OVERRIDES:,} travel"
            )
        number, rest = fields[0] - _MAP, fields[1:]
        if fields[0] == _LONG_MAP:
            # What can have more than 15 is encoded with a longer start, however many there are.
            number, rest = int.from_bytes(fields[1:3]), fields[3:]
        self._task = _encode(task)
        self._plain = bytes([_MAP + number]) + rest if number else b""
        self._keyed = bytes([_MAP + number + 1]) + rest + _encode(_ON_THE_WIRE["key"])
        self._start = bytes([_ARRAY + 5]) + _encode(FORMAT)
        self._start_plain = bytes([_ARRAY + (5 if number else 4)]) + _encode(FORMAT)

    def envelope(self, id: JobId, payload: bytes, key: str) -> bytes:
        """The envelope of one event; `encode_envelope` of the same, in a third of the time."""
        if key:
            return b"".join(
                (self._start, _encode(id), self._task, _encode(payload), self._keyed, _encode(key))
            )
        return b"".join((self._start_plain, _encode(id), self._task, _encode(payload), self._plain))
