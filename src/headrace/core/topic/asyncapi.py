"""The AsyncAPI document of an app: its topics, what their events look like, and who receives them.

What AsyncAPI has no word for is under `x-headrace`. The fields of an event's envelope are described
as headers, under the names that are reserved for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from headrace.core.address import as_redis, check_url
from headrace.core.job.retry import Retry, full_name
from headrace.core.payload.kinds import named
from headrace.core.task.options import TaskOptions
from headrace.core.topic.json_schema import JsonSchema, component_name, schemas_of
from headrace.core.topic.schema import Schema
from headrace.core.topic.subscription import SubscriptionOptions
from headrace.core.topic.topic import TopicOptions

VERSION = "3.0.0"
_TRAIT = "Envelope"
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """A subscription, as the document shows it."""

    wants: SubscriptionOptions
    declared: TaskOptions
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A topic, as the document shows it."""

    declared: TopicOptions
    schema: Schema
    keyed: bool = False
    groups: tuple[ChannelGroup, ...] = ()
    requires_key: bool = False

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def message(self) -> str:
        """The name of the channel's message."""
        return component_name(named(self.schema.codec.event_type))


def document(
    channels: Sequence[ChannelInfo], *, title: str, version: str, url: str, namespace: str
) -> dict[str, Any]:
    """The AsyncAPI document of an app with these topics, on the store of `url`."""
    payloads, schemas = _payloads(channels)
    components: dict[str, Any] = {"messageTraits": {_TRAIT: _envelope()}}
    if schemas:
        components["schemas"] = schemas
    return {
        "asyncapi": VERSION,
        "info": {"title": title, "version": version},
        "servers": _servers(url, namespace),
        "channels": {
            channel.name: _channel(channel, payloads.get(channel.name)) for channel in channels
        },
        "operations": _operations(channels),
        "components": components,
    }


def _channel(channel: ChannelInfo, payload: JsonSchema | None) -> dict[str, Any]:
    declared = channel.declared
    return {
        "address": channel.name,
        "messages": {channel.message: _message(channel, payload)},
        "x-headrace": _given(
            shards=declared.shards,
            retention=declared.retention_ms / 1000,
            max_length=declared.max_length,
            overflow=declared.overflow if declared.max_length is not None else None,
            keyed=channel.keyed,
            require_key=channel.requires_key or None,
        ),
    }


def _message(channel: ChannelInfo, payload: JsonSchema | None) -> dict[str, Any]:
    codec = channel.schema.codec
    descriptor = getattr(codec.event_type, "DESCRIPTOR", None)
    return {
        "name": named(codec.event_type),
        "contentType": codec.content_type,
        **({} if payload is None else {"payload": payload}),
        "traits": [{"$ref": f"#/components/messageTraits/{_TRAIT}"}],
        "x-headrace": _given(
            codec=codec.name,
            version=channel.schema.version,
            protobuf=getattr(descriptor, "full_name", None),
        ),
    }


def _payloads(
    channels: Sequence[ChannelInfo],
) -> tuple[dict[str, JsonSchema], dict[str, JsonSchema]]:
    """The schema of each channel's payload, where JSON Schema has words for it, and what these
    refer to."""
    codecs = {channel.name: channel.schema.codec for channel in channels}
    typed = [name for name, codec in codecs.items() if codec.name not in ("raw", "protobuf")]
    schemas, components = schemas_of([codecs[name].event_type for name in typed])
    payloads = dict(zip(typed, schemas, strict=True))
    for name, codec in codecs.items():
        if codec.name == "raw":
            payloads[name] = {"type": "string", "format": "binary"}
    return payloads, components


def _envelope() -> dict[str, Any]:
    """What every event has beside its payload."""
    time = {"type": "string", "format": "date-time"}
    own = {
        "event-id": _TEXT,
        "event-key": _TEXT,
        "event-type": _TEXT,
        "event-source": _TEXT,
        "event-time": time,
        "occurred-at": time,
        "event-version": {"type": "integer", "minimum": 1},
        "correlation-id": _TEXT,
    }
    trace = dict.fromkeys(("traceparent", "tracestate", "baggage"), _TEXT)
    return {
        "headers": {
            "type": "object",
            "required": ["event-id"],
            "properties": {**own, **trace},
            "additionalProperties": _TEXT,
        },
        "correlationId": {"location": "$message.header#/correlation-id"},
    }


def _operations(channels: Sequence[ChannelInfo]) -> dict[str, Any]:
    operations: dict[str, Any] = {}

    def add(name: str, operation: dict[str, Any]) -> None:
        free, number = component_name(name), 2
        while free in operations:
            free, number = component_name(f"{name}-{number}"), number + 1
        operations[free] = operation

    for channel in channels:
        add(f"publish_{channel.name}", _operation(channel, "send"))
        for group in channel.groups:
            received = _operation(channel, "receive")
            if group.summary:
                received["summary"] = group.summary
            received["x-headrace"] = _received(group)
            add(f"receive_{channel.name}_{group.wants.group}", received)
    return operations


def _operation(channel: ChannelInfo, action: str) -> dict[str, Any]:
    where = f"#/channels/{_pointer(channel.name)}"
    return {
        "action": action,
        "channel": {"$ref": where},
        "messages": [{"$ref": f"{where}/messages/{_pointer(channel.message)}"}],
    }


def _received(group: ChannelGroup) -> dict[str, Any]:
    wants, declared = group.wants, group.declared
    if wants.broadcast:
        return _given(broadcast=True, timeout=declared.timeout, max_in_flight=wants.max_in_flight)
    return _given(
        group=wants.group,
        ack=wants.ack,
        ordered=wants.ordered,
        on_failure=wants.failing if wants.ordered else None,
        retry=_retry(declared.retry) if wants.ack != "receive" else None,
        timeout=declared.timeout,
        max_in_flight=wants.max_in_flight,
        batch=declared.batch,
        max_wait=declared.max_wait if declared.batch is not None else None,
        begin=str(wants.begin),
        consumers=wants.scale,
    )


def _retry(retry: Retry) -> dict[str, Any]:
    on, never = (
        [kind if isinstance(kind, str) else full_name(kind) for kind in kinds]
        for kinds in (retry.on, retry.never)
    )
    return _given(
        max_attempts=retry.max_attempts,
        backoff=retry.backoff,
        base=retry.base,
        cap=retry.cap,
        jitter=retry.jitter,
        on=on or None,
        never=never or None,
    )


def _servers(url: str, namespace: str) -> dict[str, Any]:
    """Where the store is: hosts and paths alone, for a document is passed on."""
    if url.partition(":")[0] not in ("sqlite", "memory"):
        check_url(url)
    parts = urlsplit(as_redis(url))
    if parts.scheme in ("sqlite", "memory", "unix"):
        hosts = ["localhost"]
        protocol = "redis" if parts.scheme == "unix" else parts.scheme
    else:
        hosts = parts.netloc.rpartition("@")[2].split(",")
        protocol = parts.scheme.partition("+")[0]
    # In braces would be a variable.
    path = parts.path.replace("{", "%7B").replace("}", "%7D")
    servers = {}
    for number, host in enumerate(hosts, start=1):
        server: dict[str, Any] = {"host": host.strip() or "localhost", "protocol": protocol}
        if path.strip("/"):
            server["pathname"] = path
        server["x-headrace"] = _given(
            namespace=namespace, access=parts.scheme.partition("+")[2] or None
        )
        servers["store" if len(hosts) == 1 else f"store{number}"] = server
    return servers


def _pointer(name: str) -> str:
    """A name as part of a JSON pointer in a URI."""
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~")


def _given(**facts: Any) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact is not None}
