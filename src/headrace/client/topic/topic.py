"""A log of events, which any number of groups read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from headrace.client.app import ClientApp
from headrace.client.context import Context
from headrace.client.decorators import OnDead, Subscribe, SubscribeBatch
from headrace.client.send.offloading import load
from headrace.client.send.sync_use import explained_in_sync_code
from headrace.client.send.tries import retry_while_unavailable
from headrace.client.session import ClientSession
from headrace.client.topic.dead_event import DeadHandler
from headrace.client.topic.declaring import declare
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.event_encoder import prepare
from headrace.client.topic.positions import positions_of, read_logs
from headrace.client.topic.publication import PreparedEvent, PublishOutcome, Unpublished
from headrace.client.topic.publisher import Publisher
from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.bounds import check_count
from headrace.core.clock import Duration
from headrace.core.queue_names import check_topic, group_queue
from headrace.core.task.options import BATCH_WAIT
from headrace.core.topic.event import Event, read_event
from headrace.core.topic.pattern import ANY
from headrace.core.topic.publish_options import PublishKwargs, PublishManyKwargs
from headrace.core.topic.subscription import BroadcastKwargs, SubscribeKwargs
from headrace.core.topic.topic import Place, TopicKwargs, check_place
from headrace.errors import ConfigError, EventNotFound
from headrace.store.topics import LoggedEvent

E = TypeVar("E")
R = TypeVar("R")


class Topic(TopicDefinition[E]):
    """What `app.topic(...)` declares: events of type `E` are published to it, and each group of
    subscribers handles each of them once, independently of other groups."""

    def __init__(
        self,
        app: ClientApp,
        name: str,
        event_type: Any,
        make_key: Callable[[E], str | None] | None,
        declared: TopicKwargs,
    ) -> None:
        if ANY in name:
            raise ConfigError(
                f"topic name {name!r} contains '*', which stands for any text where topics are "
                f"subscribed to: app.subscribe({name!r}, group)"
            )
        super().__init__(app, name, event_type, make_key, declared)
        self.subscriptions: dict[str, Subscription[..., Any]] = {}
        """By group."""
        self.broadcasts: dict[str, Subscription[..., Any]] = {}
        self._publisher = Publisher(self, self.create_groups)

    # Publishing

    @explained_in_sync_code("topic.publish_sync(…)")
    async def publish(self, event: E, **options: Unpack[PublishKwargs]) -> str:
        """Put an event into the topic, and return its id when the store has it. In a running
        handler the trace headers and the correlation id of its event are passed on.

        Args:
            event: The event, of the topic's type.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
            id: An id of your own; a second event with the same id is not added.
        """
        return await self._publisher.one(event, options)

    def publish_sync(self, event: E, **options: Unpack[PublishKwargs]) -> str:
        """`publish` for code without an event loop.

        Args:
            event: The event, of the topic's type.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
            id: An id of your own; a second event with the same id is not added.
        """
        return self.app.portal.run(self.publish(event, **options))

    @explained_in_sync_code("topic.publish_many_sync(…)")
    async def publish_many(
        self, events: Iterable[E | Unpublished[E]], **options: Unpack[PublishManyKwargs]
    ) -> PublishOutcome[E]:
        """Publish events in batches, in their order, with the same options. Never fails over one of
        them: the outcome has a result for each, and what to publish again.

        Args:
            events: Events of the topic's type, or what `to_republish` of an earlier outcome has.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
        """
        return await self._publisher.many(events, options)

    def publish_many_sync(
        self, events: Iterable[E | Unpublished[E]], **options: Unpack[PublishManyKwargs]
    ) -> PublishOutcome[E]:
        """`publish_many` for code without an event loop.

        Args:
            events: Events of the topic's type, or what `to_republish` of an earlier outcome has.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
        """
        return self.app.portal.run(self.publish_many(events, **options))

    def prepare(self, event: E, **options: Unpack[PublishKwargs]) -> PreparedEvent:
        """All of `publish` but the sending; times are by this machine's clock."""
        return prepare(self, event, options)

    # Subscribing

    @overload
    def subscribe(
        self, group: str, *, batch: None = None, **options: Unpack[SubscribeKwargs]
    ) -> Subscribe[E]: ...
    @overload
    def subscribe(
        self,
        group: str,
        *,
        batch: int,
        max_wait: Duration = BATCH_WAIT,
        **options: Unpack[SubscribeKwargs],
    ) -> SubscribeBatch[E]: ...
    def subscribe(self, group: str, **options: Any) -> Any:
        """Have workers of this app call a function with each event, once for the whole group. A
        parameter annotated `Delivery` or `Context` is filled in. With `batch`, the function takes a
        list.

        Args:
            group: The name of the group. Each group gets each event.
            batch: The function takes a list of up to this many events. None, the default, for one
                event at a time.
            max_wait: How long the first event of a batch waits for others: seconds or a timedelta;
                0.5 unless said.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            ack: When an event is acknowledged: after the function has returned ("success", the
                default), before it begins ("receive"), or by its `Delivery` ("manual").
            ordered: Whether events of one key are handled one after the other; False unless said.
            on_failure: What a dead event of an ordered group does to later ones of its key: "block"
                them, the default, "skip" it, or "fail_key", which fails them too.
            max_in_flight: How many events one consumer holds at a time; the worker's concurrency
                unless said.
            begin: Where a new group begins: "new", the default, "start", the id of an event, or a
                time.
            consumers: How many consumers each worker process has: a number, 1 unless said, or the
                least and the most.
            name: The name in logs, counters and AsyncAPI; `topic/group` unless said.
            require_key: Whether the topic refuses events without a key, for the sake of this group;
                False unless said.
        """
        if callable(group):
            raise ConfigError(
                f"topic {self.name!r}: subscribe() needs the name of a group: "
                '@topic.subscribe("billing")'
            )

        def make(function: Callable[..., Any]) -> Subscription[..., Any]:
            subscription = declare(self, group, function, options, kind=Subscription[..., Any])
            return _registered(self.subscriptions, subscription)

        return Subscribe(make) if options.get("batch") is None else SubscribeBatch(make)

    @overload
    def broadcast(self, function: Callable[[E], R], /) -> Subscription[[E], R]: ...
    @overload
    def broadcast(self, function: Callable[[E, Delivery], R], /) -> Subscription[[E], R]: ...
    @overload
    def broadcast(self, function: Callable[[E, Context], R], /) -> Subscription[[E], R]: ...
    @overload
    def broadcast(
        self, function: None = None, /, **options: Unpack[BroadcastKwargs]
    ) -> Subscribe[E]: ...
    def broadcast(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Have each worker process call a function with each event that is published while it runs.
        Nothing is kept for a process that is not running, and nothing is retried.

        Args:
            function: The function, where the decorator stands without brackets.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            max_in_flight: How many events a process handles at a time; 1 unless said.
            name: The name in logs and counters; the function's unless said.
        """

        def make(function: Callable[..., Any]) -> Subscription[..., Any]:
            name = str(options.get("name") or getattr(function, "__name__", ""))
            broadcast = declare(
                self, name, function, options, kind=Subscription[..., Any], broadcast=True
            )
            return _registered(self.broadcasts, broadcast)

        return Subscribe[E](make) if function is None else make(function)

    def check_free(self, group: str) -> None:
        """Refuse a second subscription of a group."""
        if (other := self.subscriptions.get(group)) is not None:
            raise _taken(other)

    def add_group(self, subscription: Subscription[..., Any]) -> None:
        """Add a subscription that was declared for several topics."""
        _registered(self.subscriptions, subscription)

    def on_dead(self, group: str) -> OnDead[E]:
        """Have a function called with each event that this group gives up: see `OnDead`. The event
        stays in the group's dead ones.

        Args:
            group: The name of a group that is declared already.
        """
        subscription = self.subscriptions.get(group)
        if subscription is None:
            raise ConfigError(
                f"topic {self.name!r} has no group {group!r} (yet): declare it with subscribe() "
                "before on_dead()"
            )

        def add(function: Callable[..., Any]) -> None:
            where = f"topic {self.name!r}, on_dead({group!r}): "
            if subscription.dead_handler is not None:
                raise ConfigError(f"{where}there is one already")
            subscription.dead_handler = DeadHandler(function, where, self.event_type)

        return OnDead(add)

    # Reading

    async def read(self, after: Place | None = None, limit: int = 100) -> list[Event[E]]:
        """Up to `limit` events of the log, from the oldest kept, after the one with this id, or
        from this time on. Changes nothing for any group.

        Args:
            after: The id of an event, or an aware datetime; the oldest kept unless said.
            limit: How many at most.
        """
        check_count("read(limit=)", limit)
        if after is not None:
            check_place("read(after=)", after, self.app.clock.now_ms())
        store = (await self.app.session()).store
        logged = await read_logs(store, self.logs, after, limit)
        events = [self._logged(each) for each in logged]
        if self.offload is not None:
            for event in events:
                await event.load(partial(load, self.offload))
        return events

    async def rewind(self, group: str, to: Place) -> None:
        """Move a group to this place, back or forth: "start", "new", an event's id or a time.
        Events that it runs or retries, it still handles. `GroupNotFound` or `EventNotFound` if
        there is none.

        Args:
            group: The name of the group.
            to: "start", "new", the id of an event, or an aware datetime.
        """
        check_topic("group name", group)
        check_place("rewind(to=)", to, self.app.clock.now_ms())
        session = await self.app.session()
        await self.create_groups(session)
        positions = await positions_of(session.store, self.logs, to)
        for shard, position in enumerate(positions):
            await session.store.rewind(group_queue(self.name, group, shard), position)

    async def create_groups(self, session: ClientSession) -> None:
        """Return when all groups that the app declares exist, so that none misses what is published
        now. Asks the store every few seconds, or when more are declared; publishers that need it
        at the same time wait for one request."""
        while not session.has_joined(self.name, len(self.subscriptions)):
            joining = session.joining.get(self.name)
            if joining is None:
                groups = list(self.subscriptions.values())
                joining = asyncio.create_task(_join_all(session, self.name, groups))
                session.joining[self.name] = joining
                joining.add_done_callback(partial(_forget, session, self.name))
            await asyncio.shield(joining)

    def _logged(self, logged: LoggedEvent) -> Event[E]:
        event = read_event(logged.envelope, logged.job_id, self.name, self.decode, self._kind)
        event.place = logged.cursor
        return event

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {self._kind}>"


def _registered(
    found: dict[str, Subscription[..., Any]], subscription: Subscription[..., Any]
) -> Subscription[..., Any]:
    group = subscription.wants.group
    if group in found:
        raise _taken(found[group])
    found[group] = subscription
    subscription.topic.app.new_declarations.changed()
    return subscription


def _taken(other: Subscription[..., Any]) -> ConfigError:
    return ConfigError(
        f"topic {other.topic.name!r} has {other.wants.group!r} already: "
        f"{other.__module__}.{other.__qualname__}; choose another name, or handle the event in one "
        "function"
    )


async def _join_all(
    session: ClientSession, topic: str, subscriptions: Sequence[Subscription[..., Any]]
) -> None:
    for subscription in subscriptions:
        if subscription.declared.queue in session.removed:
            continue
        # If a group cannot begin where it should, its worker reports it.
        with suppress(EventNotFound):
            await retry_while_unavailable(partial(subscription.join, session.store))
    session.note_joined(topic, len(subscriptions))


def _forget(session: ClientSession, topic: str, joining: asyncio.Task[None]) -> None:
    del session.joining[topic]
    if not joining.cancelled():
        # Raised in the publishers that wait; there may be none left.
        joining.exception()
