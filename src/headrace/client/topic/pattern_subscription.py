"""A function that handles the events of several topics, in a group of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from headrace.client.app import ClientApp
from headrace.client.topic.dead_event import DeadHandler
from headrace.client.topic.declaring import declare
from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic import Topic
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.job.envelope import UNREADABLE
from headrace.core.queue_names import log_source
from headrace.core.topic.pattern import ANY, check_patterns, matches, overlap
from headrace.core.topic.undeclared_schema import UndeclaredSchema
from headrace.errors import ConfigError
from headrace.store.contract import Store
from headrace.store.topics import Position

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_SPACE = "subscriptions"
# As long as dead events are kept: after that, a subscription begins anew.
_KEPT = 30 * 86_400.0
_MOST_SHOWN = 120


class FirstSeen(msgspec.Struct, array_like=True, frozen=True):
    """When a subscription to several topics was first seen, and the logs that there were."""

    at_ms: int
    logs: tuple[str, ...]

    def position(self, log: str, is_new: bool) -> Position:
        """Where its group begins in a log: a log that came later has nothing from before."""
        if log not in self.logs:
            return Position("start")
        return Position("new") if is_new else Position("time", at_ms=self.at_ms)


class PatternSubscription(Subscription[P, R_co]):
    """What `@app.subscribe(...)` makes of a function: a subscription to each topic that it names,
    in a group of the same name there. Its own topic has the patterns as its name, and no log."""

    patterns: tuple[str, ...]
    undeclared: Any
    """The type of events of topics that are not declared here."""
    options_given: Mapping[str, Any]
    dead_function: Callable[..., Any] | None

    def matches(self, topic: str) -> bool:
        return any(matches(pattern, topic) for pattern in self.patterns)

    def covers(self, topics: str) -> bool:
        """Whether a worker can be given it for this pattern or name."""
        return topics in self.patterns or (ANY not in topics and self.matches(topics))

    def check_takes_bytes(self) -> None:
        """Refuse a function that cannot take what topics that nobody declares here hold."""
        try:
            self._parameters.check_event(bytes, self.declared.batch is not None)
        except ConfigError:
            raise ConfigError(
                f"app.subscribe({self.topic.name!r}, {self.wants.group!r}): events of topics that "
                "are not declared here come as bytes, which its parameter "
                f"{self._parameters.event!r} does not take: give event=, the type to read them "
                "as, or add | bytes to the annotation"
            ) from None

    def bind(self, topic: TopicDefinition[Any], *, keyed: bool = False) -> TopicSubscription:
        """The subscription to one of its topics; `ConfigError` if the function does not fit."""
        options = dict(self.options_given)
        shard = topic.first_shard if isinstance(topic, UndeclaredTopic) else 0
        name = f"{options.get('name') or self.wants.group}"
        options["name"] = f"{topic.name}/{name}" + (f"#{shard}" if shard else "")
        bound: TopicSubscription = declare(
            topic, self.wants.group, self.function, options, kind=TopicSubscription, keyed=keyed
        )
        bound.pattern = self
        if self.dead_function is not None:
            where = f"topic {topic.name!r}, on_dead of {self.wants.group!r}: "
            bound.dead_handler = DeadHandler(self.dead_function, where, topic.event_type)
        return bound

    def bind_undeclared(self, logs: Sequence[str]) -> TopicSubscription:
        """The subscription to these logs of a topic that is not declared here."""
        return self.bind(UndeclaredTopic(self.topic.app, logs, self.undeclared), keyed=True)

    @property
    def _record_name(self) -> str:
        return f"{self.wants.group}@{','.join(self.patterns)}"

    async def first_seen(self, store: Store) -> tuple[FirstSeen, bool]:
        """When the store first saw this subscription, and whether that is now."""
        name = self._record_name
        found = (await store.kv_all(_SPACE)).get(name)
        if found is None:
            now_ms = await store.time_ms()
            logs = [log for log in await store.logs() if self.matches(log_source(log)[0])]
            seen = FirstSeen(now_ms, tuple(logs))
            record = msgspec.msgpack.encode(seen)
            if await store.kv_set(_SPACE, name, record, ttl=_KEPT, expected=None):
                return seen, True
            found = (await store.kv_all(_SPACE)).get(name, record)
        try:
            return msgspec.msgpack.decode(found, type=FirstSeen), False
        except UNREADABLE:
            # Too early a beginning repeats events, too late a one loses them.
            return FirstSeen(0, ()), False

    async def keep(self, store: Store) -> None:
        """Have the store remember it for another while."""
        seen, _ = await self.first_seen(store)
        record = msgspec.msgpack.encode(seen)
        await store.kv_set(_SPACE, self._record_name, record, ttl=_KEPT, expected=record)


class TopicSubscription(Subscription[..., Any]):
    """One of the topics of a `PatternSubscription`."""

    pattern: PatternSubscription[..., Any]

    async def _places(self, store: Store) -> list[Position]:
        if self.wants.begin != "new":
            return await super()._places(store)
        seen, is_new = await self.pattern.first_seen(store)
        return [seen.position(log, is_new) for log in self.topic.logs]


class UndeclaredTopic(TopicDefinition[Any]):
    """A topic that other programs declare, as far as its logs show it."""

    def __init__(self, app: ClientApp, logs: Sequence[str], event_type: Any) -> None:
        topic, shard = log_source(logs[0])
        super().__init__(app, topic, event_type, None, {"codec": _codec_for(event_type)})
        self.schema = UndeclaredSchema(topic, self.schema.codec)
        self.logs = list(logs)
        self.first_shard = shard


def subscribe(
    app: ClientApp,
    topics: str | Iterable[str],
    group: str,
    function: Callable[..., Any],
    event: Any,
    options: Mapping[str, Any],
) -> PatternSubscription[..., Any]:
    """A subscription to several topics, not yet bound to any."""
    patterns = check_patterns("app.subscribe()", topics)
    given = dict(options)
    dead_function = given.pop("on_dead", None)
    shown = ",".join(patterns)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
    kind: Any = Any if event is None else event
    topic = TopicDefinition[Any](app, shown, kind, None, {"codec": _codec_for(kind)})
    made: PatternSubscription[..., Any] = declare(
        topic, group, function, given, kind=PatternSubscription, keyed=True
    )
    made.patterns = patterns
    made.undeclared = bytes if event is None else event
    made.options_given = given
    made.dead_function = dead_function
    if dead_function is not None:
        DeadHandler(dead_function, f"app.subscribe({shown!r}, {group!r}), on_dead: ", kind)
    if event is None and any(ANY in pattern for pattern in patterns):
        made.check_takes_bytes()
    return made


def bind_all(
    made: PatternSubscription[..., Any],
    topics: Mapping[str, Topic[Any]],
    others: Iterable[PatternSubscription[..., Any]],
) -> None:
    """Subscribe to the topics that are declared; all of them, or `ConfigError`."""
    for other in others:
        clash = [(one, two) for one in made.patterns for two in other.patterns if overlap(one, two)]
        if clash and other.wants.group == made.wants.group:
            one, two = clash[0]
            raise ConfigError(
                f"app.subscribe({one!r}, {made.wants.group!r}): the group is declared for {two!r} "
                "already, and a topic may match both; choose another name for the group"
            )
    bound = [(topic, made.bind(topic)) for topic in topics.values() if made.matches(topic.name)]
    for topic, _ in bound:
        topic.check_free(made.wants.group)
    for topic, subscription in bound:
        topic.add_group(subscription)


def bind_topic(topic: Topic[Any], patterns: Iterable[PatternSubscription[..., Any]]) -> None:
    """Subscribe to a new topic for each pattern that matches it."""
    for made in patterns:
        if made.matches(topic.name):
            topic.add_group(made.bind(topic))


def _codec_for(event_type: Any) -> Any:
    return "protobuf" if hasattr(event_type, "DESCRIPTOR") else "msgpack"
