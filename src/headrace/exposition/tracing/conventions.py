"""Names of spans and attributes, by OpenTelemetry's semantic conventions for messaging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from headrace.core.queue_names import group_source, is_log, log_source

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
