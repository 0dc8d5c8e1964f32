"""A function that handles the events of a topic, in a group of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

from headrace.client.context import Context, current
from headrace.client.task import Task
from headrace.client.topic.dead_event import DeadHandler
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.event_encoder import prepare
from headrace.client.topic.manual_settlement import ManualSettlement
from headrace.client.topic.parameters import Parameters
from headrace.client.topic.positions import positions_of
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.bounds import TIMEOUT
from headrace.core.job.envelope import Envelope, decode_envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.retry import MAX_DEFERS, Retry
from headrace.core.job.state import Reason
from headrace.core.payload.offload import Offload
from headrace.core.queue_names import check_topic, group_queue, shard_in
from headrace.core.task.options import BATCH_WAIT, TaskOptions
from headrace.core.task.signature import Signature
from headrace.core.topic.subscription import (
    BroadcastKwargs,
    SubscribeAnyKwargs,
    SubscribeKwargs,
    SubscriptionOptions,
    check_patience,
    check_subscription,
)
from headrace.core.topic.topic import check_known
from headrace.errors import ConfigError, EventNotFound
from headrace.store.topics import Group, TopicStore

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Subscription(Task[P, R_co]):
    """What `@topic.subscribe(...)` and `@topic.broadcast` make of a function. Workers of its app
    call it with the events of the topic; calling it runs the function here and now."""

    def __init__(
        self,
        topic: TopicDefinition[Any],
        function: Callable[..., Any],
        declared: TaskOptions,
        wants: SubscriptionOptions,
    ) -> None:
        self.topic = topic
        self.wants = wants
        self.dead_handler: DeadHandler | None = None
        """What `@topic.on_dead` gave for this group."""
        where = f"topic {topic.name!r}, {wants.group!r}: "
        self._parameters = Parameters(function, where, (Delivery, Context))
        super().__init__(topic.app, function, declared)
        self.injects = bool(self._parameters.fills)
        self._parameters.check_event(topic.event_type, declared.batch is not None)
        self._check_delivery(where)
        requires_key = wants.ordered and (wants.require_key or topic.options.require_key)
        self._decode = self._decode_keyed if requires_key else topic.schema.decode
        self._most = topic.max_payload

    @property
    def max_payload(self) -> int:
        return self.topic.max_payload

    @property
    def offload(self) -> Offload | None:
        return self.topic.offload

    @property
    def group(self) -> Group:
        """The options of the group, for the store."""
        return Group(self.wants.ordered, self.wants.failing)

    @property
    def queues(self) -> list[str]:
        """The group's queues, one for each shard; of a broadcast, the topic's logs."""
        if self.wants.broadcast:
            return self.topic.logs
        shards = range(self.topic.options.shards)
        return [group_queue(self.topic.name, self.wants.group, shard) for shard in shards]

    async def join(self, store: TopicStore) -> None:
        """See to it that the group exists in each shard. `EventNotFound` if it is new, and should
        begin at an event that is not there."""
        topic = self.topic
        places = await positions_of(store, topic.logs, self.wants.begin)
        try:
            for queue, place in zip(self.queues, places, strict=True):
                await store.join(queue, self.group, place)
        except EventNotFound as error:
            raise EventNotFound(topic.name, error.event_id, self.wants.group) from None

    def unpack(
        self, envelope: Envelope, first_argument: bytes = b""
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The event in an envelope, as the function's only argument; or `Unfit`."""
        if len(envelope.payload) > self._most:
            return (self.topic.decode(envelope),), {}
        # As `topic.decode` does, which is a call more for each event.
        return (self._decode(envelope),), {}

    def _decode_keyed(self, envelope: Envelope) -> Any:
        """Publishers that do not know of the requirement leave out the key, and the order."""
        if not envelope.overrides.key:
            raise Unfit(
                Reason.BAD_EVENT,
                f"the event has no key, and group {self.wants.group!r} requires one: its publisher "
                "does not know that, as it does not import the declaration with require_key=True",
            )
        return self.topic.schema.decode(envelope)

    def delivery(
        self,
        envelope: Envelope,
        *,
        attempt: int = 1,
        fence: int = 1,
        deaths: int = 0,
        queue: str = "",
        manual: ManualSettlement | None = None,
    ) -> Delivery:
        """The handle of an event in this group. Without `manual`, `ack` and the like have no effect
        but that the delivery counts as used."""
        return Delivery(
            self.topic.event_of(envelope),
            self.wants.group,
            attempt=attempt,
            fence=fence,
            deaths=deaths,
            shard=shard_in(queue),
            ack=self.wants.ack,
            manual=manual,
            places=self.topic,
        )

    @property
    def wants_delivery(self) -> bool:
        """Whether the function has a parameter for the `Delivery`."""
        return Delivery in self._parameters.fills

    def with_context(
        self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The event with the delivery and the context where the function wants them."""
        if not self.injects:
            return args, kwargs
        return self._parameters.arguments(args[0], {Context: context, Delivery: context.delivery})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now, with an event or, if it takes batches, a list of them. A
        delivery that it wants is made up if none is given."""
        given = [*args, *kwargs.values()]
        events = [one for one in given if not isinstance(one, (Context, Delivery))]
        if len(events) != 1:
            raise ConfigError(f"{self!r} is called with one event, not with {len(events)}")
        here, named = self._parameters.arguments(events[0], self._fillings(given, events[0]))
        value: R_co = self.function(*here, **named)
        return value

    def _fillings(self, given: list[Any], event: Any) -> Mapping[type, Any]:
        found: dict[type, Any] = {type(one): one for one in given}
        if Context in self._parameters.fills and Context not in found:
            found[Context] = current()
        if self.wants_delivery and Delivery not in found:
            # As if it had been published, and had come here.
            envelope = decode_envelope(prepare(self.topic, event, {}).parcel.envelope)
            found[Delivery] = self.delivery(envelope)
        return found

    def _signature(self, function: Callable[..., Any]) -> Signature:
        return Signature(_takes_an_event, self.declared.name, Context)

    def _check_delivery(self, where: str) -> None:
        if self.wants.ack == "manual" and not self.wants_delivery:
            raise ConfigError(
                f"{where}ack='manual' needs a parameter annotated Delivery, by which the function "
                "says how handling the event ended"
            )
        if self.declared.batch is not None and self.wants_delivery:
            raise ConfigError(
                f"{where}a batch has no Delivery: leave the parameter out; raise BatchError for "
                "the events that failed"
            )

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            f"{self!r} is given the events of its topic: publish one with "
            f"app.topics[{self.topic.name!r}].publish(…)"
        )

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        self._refuse()

    def call(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: events are published."""
        self._refuse()

    def options(self, **changes: Any) -> NoReturn:
        """Refused: what differs for one event is said when it is published."""
        self._refuse()

    def __repr__(self) -> str:
        kind = "Broadcast" if self.wants.broadcast else "Subscription"
        return f"<{kind} {self.wants.group!r} of {self.topic.name!r}>"


def _takes_an_event(event: Any) -> None: ...


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
    broadcast: bool = False,
) -> Subscription[..., Any]:
    """A subscription as its options say; `ConfigError` for what cannot be."""
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
    keyed = topic.make_key is not None or topic.require_key or wants.require_key
    now_ms = topic.app.clock.now_ms()
    check_subscription(where, wants, keyed=keyed, batch=batch, retry=retry, now_ms=now_ms)
    declared = _task_options(topic, function, wants, options)
    if not broadcast:
        check_patience(where, declared.timeout, topic.options.gone_after_ms)
    subscription = Subscription[..., Any](topic, function, declared, wants)
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
