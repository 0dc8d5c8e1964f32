"""What all spans share: the tracer; names and attributes by OpenTelemetry's conventions for
messaging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer, TracerProvider

from headrace.core.queue_names import group_source, is_log, log_source
from headrace.errors import ConfigError

_SCHEMA = "https://opentelemetry.io/schemas/1.37.0"

SYSTEM = "messaging.system"
OPERATION = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
SUBSCRIPTION = "messaging.destination.subscription.name"
GROUP = "messaging.consumer.group.name"
COUNT = "messaging.batch.message_count"
MESSAGE_ID = "messaging.message.id"
ERROR_TYPE = "error.type"
TASK = "headrace.task"
ATTEMPT = "headrace.attempt"
OUTCOME = "headrace.outcome"
FAILED = "headrace.failed"

Attributes = Mapping[str, str | int]


@lru_cache(1024)
def span_name(operation: str, queue: str | None) -> str:
    """The name of a span; `queue` is None if it is about several."""
    return operation if queue is None else f"{operation} {_place(queue)[DESTINATION]}"


@lru_cache(1024)
def attributes(operation: str, kind: str, queue: str | None, task: str | None = None) -> Attributes:
    """The attributes that all spans of an operation at a place share; to be copied, not changed."""
    found = {SYSTEM: "headrace", OPERATION: operation, OPERATION_TYPE: kind}
    if queue is not None:
        found |= _place(queue)
    return found if task is None else {**found, TASK: task}


def _place(queue: str) -> dict[str, str]:
    """The destination: a queue, a topic's log, or a topic with one of its groups."""
    if is_log(queue):
        topic, shard = log_source(queue)
        return {DESTINATION: topic, PARTITION: str(shard)} if shard else {DESTINATION: topic}
    source = group_source(queue)
    if source is None:
        return {DESTINATION: queue}
    place = {DESTINATION: source.topic, GROUP: source.group}
    return {**place, PARTITION: str(source.shard)} if source.shard else place


def common(values: Iterable[str]) -> str | None:
    """The value if all are equal, else None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


class TracerSource:
    """The tracer of one provider, or of the global one as it is when the first span is made: it is
    often set after the app."""

    def __init__(self, provider: TracerProvider | None) -> None:
        given: object = provider
        if given is not None and not isinstance(given, TracerProvider):
            raise ConfigError(f"Tracing() takes a TracerProvider, not {given!r}")
        self._given = provider
        self._tracer: Tracer | None = None
        self.drops_unsampled = False
        """Whether spans below an unsampled one are always dropped; False while unknown."""

    @property
    def tracer(self) -> Tracer:
        if self._tracer is not None:
            return self._tracer
        provider = self._given or trace.get_tracer_provider()
        tracer = provider.get_tracer("headrace", schema_url=_SCHEMA)
        if not isinstance(provider, ProxyTracerProvider):
            self._tracer = tracer
            self.drops_unsampled = _drops_unsampled(tracer)
        return tracer


def _drops_unsampled(tracer: Tracer) -> bool:
    sampler = getattr(tracer, "sampler", None)
    # A subclass of an SDK sampler may decide otherwise.
    if type(sampler).__module__ != "opentelemetry.sdk.trace.sampling":
        return False
    description = str(sampler.get_description()) if sampler is not None else ""
    return (
        description.startswith("ParentBased{")
        and "remoteParentNotSampled:AlwaysOffSampler" in description
    )
