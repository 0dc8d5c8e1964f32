"""A function that handles the events of a topic, in a group of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

from headrace.client.context import Context, needs_context, running
from headrace.client.task import Task
from headrace.client.topic.dead_event import DeadHandler
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.event_encoder import prepare
from headrace.client.topic.manual_settlement import ManualSettlement
from headrace.client.topic.parameters import Parameters
from headrace.client.topic.positions import positions_of
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.job.envelope import Envelope, decode_envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.payload.offload import Offload
from headrace.core.queue_names import shard_in
from headrace.core.task.options import TaskOptions
from headrace.core.task.signature import Signature
from headrace.core.topic.subscription import SubscriptionOptions
from headrace.errors import ConfigError, EventNotFound
from headrace.store.contract import Store
from headrace.store.topics import Group, Position

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
        return [f"{self.wants.group}{log}" for log in self.topic.logs]

    async def join(self, store: Store) -> None:
        """See to it that the group exists in each shard. `EventNotFound` if it is new, and should
        begin at an event that is not there."""
        places = await self._places(store)
        try:
            for queue, place in zip(self.queues, places, strict=True):
                await store.join(queue, self.group, place)
        except EventNotFound as error:
            raise EventNotFound(self.topic.name, error.event_id, self.wants.group) from None

    async def _places(self, store: Store) -> list[Position]:
        """Where the group begins in each log, if it is new."""
        return await positions_of(store, self.topic.logs, self.wants.begin)

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
            run = running.get()
            if run is None and Context not in self._parameters.can_be_none:
                raise needs_context(repr(self))
            found[Context] = None if run is None else run.context()
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
