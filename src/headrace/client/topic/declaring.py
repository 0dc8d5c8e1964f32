"""Makes subscriptions of functions and options, and refuses what cannot be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.bounds import TIMEOUT
from headrace.core.job.retry import MAX_DEFERS, Retry, check_timeouts
from headrace.core.queue_names import check_topic, group_queue
from headrace.core.task.options import BATCH_WAIT, TaskOptions
from headrace.core.topic.subscription import (
    BroadcastKwargs,
    SubscribeAnyKwargs,
    SubscribeKwargs,
    SubscriptionOptions,
    check_patience,
    check_subscription,
)
from headrace.core.topic.topic import check_known

S = TypeVar("S", bound=Subscription[..., Any])

_NO_PROCESS = (
    "an async function handles events in the loop, a plain one in a thread; enqueue a task with "
    "run_in='process' from it"
)
_NOT_FOR_ALL = "a broadcast is not durable: each process is given what is published while it runs"


def declare(
    topic: TopicDefinition[Any],
    group: str,
    function: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    kind: type[S],
    broadcast: bool = False,
    keyed: bool = False,
) -> S:
    """A subscription as its options say; `ConfigError` for what cannot be. `keyed` says that the
    events may have keys though the topic makes none."""
    where = f"topic {topic.name!r}, {group!r}: "
    known, hints = SubscribeKwargs.__annotations__, {"run_in": _NO_PROCESS}
    if broadcast:
        hints |= dict.fromkeys([*known, "batch", "max_wait"], _NOT_FOR_ALL)
    check_known(f"{where}it", options, BroadcastKwargs if broadcast else SubscribeAnyKwargs, hints)
    own = set(SubscriptionOptions.__struct_fields__) & options.keys()
    wants = SubscriptionOptions(
        group=check_topic("group name", group),
        broadcast=broadcast,
        **{name: options[name] for name in own},
    )
    batch, retry = options.get("batch"), options.get("retry")
    keyed = keyed or topic.make_key is not None or topic.require_key or wants.require_key
    now_ms = topic.app.clock.now_ms()
    check_subscription(where, wants, keyed=keyed, batch=batch, retry=retry, now_ms=now_ms)
    check_timeouts(where, options)
    declared = _task_options(topic, function, wants, options)
    if not broadcast:
        check_patience(where, declared.timeout, topic.options.gone_after_ms)
    subscription = kind(topic, function, declared, wants)
    topic.require_key = topic.require_key or wants.require_key
    return subscription


def _task_options(
    topic: TopicDefinition[Any],
    function: Callable[..., Any],
    wants: SubscriptionOptions,
    options: Mapping[str, Any],
) -> TaskOptions:
    once = wants.broadcast or wants.ack == "receive"
    return TaskOptions(
        name=options.get("name") or f"{topic.name}/{wants.group}",
        run_in="loop" if inspect.iscoroutinefunction(function) else "thread",
        queue=topic.task if wants.broadcast else group_queue(topic.name, wants.group),
        retry=options.get("retry") or (Retry(1) if once else Retry()),
        timeout=options.get("timeout", TIMEOUT),
        on_timeout=options.get("on_timeout", "retry"),
        max_defers=options.get("max_defers", MAX_DEFERS),
        result_ttl=0,
        batch=options.get("batch"),
        max_wait=options.get("max_wait", BATCH_WAIT),
    )
