"""Makes parcels of the events of one publish; what they share is encoded once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import msgspec

from headrace.client.context import running
from headrace.client.topic.publication import PreparedEvent
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core import codec
from headrace.core.bounds import MAX_LABEL_BYTES, check_label
from headrace.core.job import ids
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.payload.kinds import named
from headrace.core.payload.packing import Packer
from headrace.core.queue_names import shard_of
from headrace.core.topic.headers import trace_of
from headrace.core.topic.publish_options import EnvelopeTemplate, PublishOptions, publish_options
from headrace.errors import ConfigError, EventError, PayloadTooLarge

NO_KEY = (
    "the event has no key, and the topic requires one (require_key=True): give publish(key=…), or "
    "the topic a key= that returns a text for every event"
)


def prepare(topic: TopicDefinition[Any], event: Any, options: Mapping[str, Any]) -> PreparedEvent:
    """All of a publish but the sending; times are by this machine's clock."""
    checked = publish_options(options)
    if checked.confirm:
        raise ConfigError(
            "confirm= is for sends to the store; what an outbox takes is certain with its "
            "transaction"
        )
    encoder = EventEncoder(topic, checked, topic.app.clock.now_ms())
    return encoder.prepared(event, topic.max_payload)


class EventEncoder:
    """Makes parcels of events. `now_ms` is for envelopes that hold a moment. Each publish makes
    one, and each batch of a long publish, because ids hold the time."""

    def __init__(
        self, topic: TopicDefinition[Any], options: PublishOptions, now_ms: int | None
    ) -> None:
        self._topic = topic.name
        self._task = topic.task
        self._logs = topic.logs
        self._only = topic.logs[0] if len(topic.logs) == 1 else None
        self._encode = topic.schema.encode
        self._most = topic.most_sent
        # One's own codec makes of an event what it likes.
        self._looks_first = topic.schema.codec.name in ("msgpack", "json", "raw")
        self._packer = topic.packer
        self._make_key = topic.make_key
        self._require_key = topic.require_key
        self._options = options
        self._delay_ms, self._at_ms = options.delay_ms, options.at_ms
        self._key = options.key
        self._overrides = _overrides(topic, options, now_ms)
        self._template = EnvelopeTemplate(topic.task, self._overrides)
        self._by_class = topic.names_classes and not options.overrides.kind
        self._templates_by_class: dict[type, EnvelopeTemplate] = {}
        self._ids: Iterator[JobId] = ids.new_ids()
        self.confirm = options.confirm
        self.custom_ids = options.id is not None
        """Whether the caller chose the id."""

    def parcel(self, event: Any) -> Parcel:
        """The event as a parcel; `EventError` or `PayloadTooLarge` if it cannot travel."""
        # Near the limit, the error has the exact size.
        if self._looks_first and (size := codec.least_size(event)) > 2 * self._most:
            raise PayloadTooLarge(self._task, size, self._most)
        payload = self._encode(event)
        if len(payload) > self._most:
            raise PayloadTooLarge(self._task, len(payload), self._most)
        key = self._key
        if not key and self._make_key is not None:
            key = self._key_of(event)
        if not key and self._require_key:
            raise EventError(self._topic, NO_KEY)
        id = self._options.id or next(self._ids)
        template = self._template_of(type(event)) if self._by_class else self._template
        envelope = b""
        if self._packer is not None:
            envelope = self._packed(self._packer, template, id, payload, key)
        envelope = envelope or template.envelope(id, payload, key)
        constraints = Constraints(0, key) if key else NO_CONSTRAINTS
        return Parcel(id, envelope, self._delay_ms, self._at_ms, constraints)

    def _packed(
        self, packer: Packer, template: EnvelopeTemplate, id: JobId, payload: bytes, key: str
    ) -> bytes:
        """The envelope of an event that travels in fewer bytes; empty if it does not."""
        data, packing = packer.packed(payload)
        if packing is None:
            return b""
        overrides = msgspec.structs.replace(template.overrides, key=key, packing=packing)
        return encode_envelope(id, self._task, data, overrides)

    def log(self, parcel: Parcel) -> str:
        """The log of the event, by its key or, if it has none, by its id."""
        if self._only is not None:
            return self._only
        shards = len(self._logs)
        lane = parcel.constraints.lane
        return self._logs[shard_of(lane, shards) if lane else zlib.crc32(parcel.job_id) % shards]

    def prepared(self, event: Any, most: int | None = None) -> PreparedEvent:
        """The event with the log it belongs to; `most` bytes of it can be sent, if that is less."""
        if most is not None:
            self._most = most
        parcel = self.parcel(event)
        return PreparedEvent(self.log(parcel), parcel, self.custom_ids)

    def _key_of(self, event: Any) -> str:
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

    def _template_of(self, kind: type) -> EnvelopeTemplate:
        template = self._templates_by_class.get(kind)
        if template is None:
            overrides = msgspec.structs.replace(self._overrides, kind=named(kind))
            template = self._templates_by_class[kind] = EnvelopeTemplate(self._task, overrides)
        return template


def _is_usual(key: object) -> TypeGuard[str]:
    """Whether it is valid at first glance; other keys are checked in full."""
    return (
        type(key) is str and 0 < len(key) <= MAX_LABEL_BYTES and key.isascii() and key.isprintable()
    )


def _overrides(
    topic: TopicDefinition[Any], options: PublishOptions, now_ms: int | None
) -> Overrides:
    """What the envelopes hold beside the event: from the options, from the topic, and from the run
    in which it is published."""
    given = options.overrides
    headers, correlation = given.headers, given.correlation
    run = running.get()
    if run is not None:
        context = run.context()
        if "traceparent" not in headers:
            headers = {**trace_of(context.headers), **headers}
        if not correlation and context.delivery is not None:
            correlation = context.delivery.correlation_id or ""
    expires_ms = given.expires_ms
    if options.expires_in_ms is not None and now_ms is not None:
        expires_ms = now_ms + options.expires_in_ms
    return Overrides(
        headers=headers,
        expires_ms=expires_ms,
        sent_ms=now_ms if options.id is not None else None,
        kind=given.kind,
        source=given.source or topic.options.source or "",
        correlation=correlation,
        occurred_us=given.occurred_us,
        content=topic.schema.content,
        version=topic.schema.version,
    )
