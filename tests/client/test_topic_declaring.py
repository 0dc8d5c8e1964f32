"""Declaring topics and subscriptions: what becomes of it, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headrace import (
    ConfigError,
    Context,
    DeadEvent,
    Delivery,
    DeliveryUsed,
    Headrace,
    HeadraceError,
    Retry,
    Topic,
)
from headrace.core.job.envelope import decode_envelope
from headrace.store.topics import Bound, Group


@dataclass
class OrderPaid:
    order_id: str
    amount: int


PAID = OrderPaid("o-1", 995)


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.fixture
def orders(app: Headrace) -> Topic[OrderPaid]:
    return app.topic("orders", OrderPaid, key=lambda event: event.order_id, shards=2)


def test_a_topic_is_known_to_its_app(app: Headrace, orders: Topic[OrderPaid]) -> None:
    assert app.topics == {"orders": orders}
    assert orders.logs == ["@orders", "@orders#1"]
    assert app.queues == []


def test_a_topic_is_declared_once(app: Headrace, orders: Topic[OrderPaid]) -> None:
    with pytest.raises(ConfigError, match="topic 'orders' is declared twice"):
        app.topic("orders", OrderPaid)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": "red"}, "has no 'colour'"),
        ({"key": "order_id"}, "lambda event"),
        ({"version": 0}, "version"),
        ({"codec": "pickle"}, "there is no codec 'pickle'"),
        ({"overflow": "block"}, "needs max_length="),
    ],
)
def test_a_topic_refuses(app: Headrace, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        app.topic("orders", OrderPaid, **options)
    assert not app.topics


def test_a_subscription_is_a_task_of_its_groups_queue(orders: Topic[OrderPaid]) -> None:
    @orders.subscribe(
        "ledger", ordered=True, on_failure="skip", retry=Retry(5), timeout=9, max_in_flight=64
    )
    async def ledger(event: OrderPaid) -> None: ...

    declared = ledger.declared
    assert (declared.name, declared.queue) == ("orders/ledger", "ledger@orders")
    assert (declared.result_ttl, declared.timeout, declared.run_in) == (0, 9, "loop")
    assert declared.retry == Retry(5)
    assert orders.subscriptions == {"ledger": ledger}
    assert ledger.queues == ["ledger@orders", "ledger@orders#1"]
    assert ledger.group == Group(ordered=True, on_failure="skip")
    assert ledger.wants.max_in_flight == 64
    assert not ledger.injects


def test_a_plain_function_runs_in_a_thread_and_a_batch_is_one(orders: Topic[OrderPaid]) -> None:
    @orders.subscribe("warehouse", batch=500, max_wait=timedelta(seconds=0.25))
    def load(events: list[OrderPaid]) -> None: ...

    declared = load.declared
    assert (declared.run_in, declared.batch, declared.max_wait) == ("thread", 500, 0.25)


def test_a_broadcast_is_declared_with_and_without_options(orders: Topic[OrderPaid]) -> None:
    @orders.broadcast
    async def drop_cache(event: OrderPaid) -> None: ...

    @orders.broadcast(timeout=5, max_in_flight=10, name="more")
    async def drop_more(event: OrderPaid) -> None: ...

    assert orders.broadcasts == {"drop_cache": drop_cache, "more": drop_more}
    assert not orders.subscriptions
    assert drop_cache.queues == orders.logs
    assert drop_cache.declared.retry.max_attempts == 1
    assert drop_more.declared.timeout == 5
    assert drop_more.wants.broadcast


async def function(event: OrderPaid) -> None: ...


async def loose(event: OrderPaid) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": "a@b"}, "group name"),
        ({"group": ""}, "group name"),
        ({"ack": "manual"}, "needs a parameter annotated Delivery"),
        ({"run_in": "process"}, "run_in='process' from it"),
        ({"colour": "red"}, "has no 'colour'"),
        ({"retry": 5}, "must be a Retry"),
        ({"timeout": 0}, "timeout"),
        ({"batch": 0}, "batch"),
        ({"max_wait": 5}, "max_wait needs batch="),
        ({"batch": 5}, r"annotate 'event' as list"),
        ({"on_failure": "skip"}, "ordered=True"),
        ({"begin": 7}, "begin"),
        ({"begin": datetime(2999, 1, 1, tzinfo=UTC)}, "begin is a time in the future"),
    ],
)
def test_a_subscription_refuses(
    orders: Topic[OrderPaid], options: dict[str, Any], said: str
) -> None:
    subscribe: Any = orders.subscribe
    with pytest.raises(ConfigError, match=said):
        subscribe(**{"group": "billing", **options})(function)
    assert not orders.subscriptions


def test_a_group_that_may_be_busy_for_longer_than_it_is_waited_for_is_refused(
    app: Headrace,
) -> None:
    topic = app.topic("brief", OrderPaid, group_gone_after=60)
    with pytest.raises(ConfigError, match="'billing': timeout=300 is no less than"):
        topic.subscribe("billing")(function)
    topic.subscribe("billing", timeout=30)(function)
    topic.broadcast(loose)


def test_order_needs_the_topics_own_key(app: Headrace) -> None:
    topic = app.topic("plain", OrderPaid)
    with pytest.raises(ConfigError, match=r"topic 'plain', 'ledger': .*key=lambda"):
        topic.subscribe("ledger", ordered=True)(function)


@pytest.mark.parametrize("name", ["retry", "ack", "ordered", "begin", "consumers", "batch"])
def test_a_broadcast_refuses_what_needs_a_group(orders: Topic[OrderPaid], name: str) -> None:
    broadcast: Any = orders.broadcast
    with pytest.raises(ConfigError, match=f"no '{name}': a broadcast is not durable"):
        broadcast(**{name: 1})(function)


def test_a_group_is_declared_once(orders: Topic[OrderPaid]) -> None:
    orders.subscribe("billing")(function)
    with pytest.raises(ConfigError, match=r"'orders' has 'billing' already: .*\.function"):
        orders.subscribe("billing")(loose)


def generator(event: OrderPaid) -> Iterator[int]:
    yield 1


async def async_generator(event: OrderPaid) -> AsyncIterator[int]:
    yield 1


async def of_nothing() -> None: ...


async def of_two(event: OrderPaid, more: int) -> None: ...


async def by_name_only(*, event: OrderPaid) -> None: ...


async def of_text(event: str) -> None: ...


async def with_two(event: OrderPaid, one: Delivery, other: Delivery) -> None: ...


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (generator, "generator"),
        (async_generator, "generator"),
        (of_nothing, "must take the event"),
        (of_two, "parameter 'more'"),
        (by_name_only, "parameter 'event'"),
        (of_text, "annotated str, but the topic's events are of type OrderPaid"),
        (with_two, "parameter 'one'"),
        (OrderPaid, "goes on a function"),
    ],
)
def test_a_function_that_cannot_be_called_with_an_event_is_refused(
    orders: Topic[OrderPaid], handler: Callable[..., Any], said: str
) -> None:
    subscribe: Any = orders.subscribe("billing")
    with pytest.raises(ConfigError, match=said):
        subscribe(handler)


def test_a_batch_has_no_delivery(orders: Topic[OrderPaid]) -> None:
    async def load(events: list[OrderPaid], delivery: Delivery) -> None: ...

    subscribe: Any = orders.subscribe("warehouse", batch=5)
    with pytest.raises(ConfigError, match="a batch has no Delivery"):
        subscribe(load)


def test_events_are_published_not_enqueued(orders: Topic[OrderPaid]) -> None:
    bill = orders.subscribe("billing")(function)
    for send in (bill.call, bill.options, bill.enqueue_sync):
        use: Any = send
        with pytest.raises(ConfigError, match=r"app\.topics\['orders'\]\.publish"):
            use()


# Calling it here


async def test_a_subscription_can_be_called_here(orders: Topic[OrderPaid]) -> None:
    @orders.subscribe("billing")
    async def bill(event: OrderPaid) -> int:
        return event.amount

    @orders.subscribe("mail")
    def mail(event: OrderPaid) -> str:
        return event.order_id

    @orders.subscribe("warehouse", batch=10)
    async def load(events: list[OrderPaid]) -> int:
        return len(events)

    assert await bill(PAID) == 995
    assert mail(PAID) == "o-1"
    assert await load([PAID, PAID]) == 2


async def test_called_here_it_gets_a_delivery_that_can_be_used(orders: Topic[OrderPaid]) -> None:
    @orders.subscribe("audit", ack="manual")
    async def audit(event: OrderPaid, delivery: Delivery) -> Delivery:
        await delivery.ack()
        return delivery

    delivery = await audit(PAID)
    assert delivery.used
    assert (delivery.topic, delivery.group, delivery.key) == ("orders", "audit", "o-1")
    assert delivery.event.data == PAID
    with pytest.raises(DeliveryUsed):
        await delivery.retry()
    with pytest.raises(HeadraceError):
        await audit()  # type: ignore[call-arg]


async def test_parameters_are_filled_by_annotation_wherever_they_stand(
    orders: Topic[OrderPaid],
) -> None:
    seen: list[tuple[Any, ...]] = []

    async def first(ctx: Context, event: OrderPaid, delivery: Delivery) -> None:
        seen.append((event, delivery, ctx))

    async def last(event: OrderPaid, extra: list[int] = [], *, ctx: Context) -> None:  # noqa: B006
        seen.append((event, extra, ctx))

    async def middle(event: OrderPaid, extra: int = 5, ctx: Context | None = None) -> None:
        seen.append((event, extra, ctx))

    context = Context(app_job(orders), 1, "w", 1)
    context.delivery = delivery = orders.subscribe("a")(first).delivery(
        decode_envelope(orders.prepare(PAID).parcel.envelope)
    )
    subscribe: Any = orders.subscribe
    for name, function in (("b", first), ("c", last), ("d", middle)):
        subscription = subscribe(name)(function)
        args, kwargs = subscription.with_context(context, (PAID,), {})
        await function(*args, **kwargs)
    assert seen == [(PAID, delivery, context), (PAID, [], context), (PAID, 5, context)]


def app_job(topic: Topic[Any]) -> Any:
    return topic.app.job("x")


# Dead events


def test_a_dead_handler_is_kept_with_its_group(orders: Topic[OrderPaid]) -> None:
    bill = orders.subscribe("billing")(function)

    @orders.on_dead("billing")
    async def on_death(event: OrderPaid, dead: DeadEvent) -> None: ...

    assert bill.dead_handler is not None
    assert bill.dead_handler.function is on_death
    with pytest.raises(ConfigError, match="there is one already"):
        orders.on_dead("billing")(function)


def test_a_dead_handler_needs_its_group(orders: Topic[OrderPaid]) -> None:
    with pytest.raises(ConfigError, match=r"no group 'billing' \(yet\)"):
        orders.on_dead("billing")


def test_a_dead_handler_is_given_what_it_asks_for(orders: Topic[OrderPaid]) -> None:
    readable, unreadable = (dead_event(orders, payload) for payload in (None, b"\xc1"))

    def of_event(event: OrderPaid) -> None: ...
    def of_both(dead: DeadEvent, event: OrderPaid) -> None: ...
    def of_either(event: OrderPaid | None, dead: DeadEvent) -> None: ...
    def of_dead(dead: DeadEvent) -> None: ...

    wanted: list[tuple[Any, Any, Any]] = [
        (of_event, (PAID,), None),
        (of_both, (readable, PAID), None),
        (of_either, (PAID, readable), (None, unreadable)),
        (of_dead, (readable,), (unreadable,)),
    ]
    for number, (on_death, with_readable, with_unreadable) in enumerate(wanted):
        subscription = orders.subscribe(f"group-{number}")(function)
        on_dead: Any = orders.on_dead(f"group-{number}")
        on_dead(on_death)
        assert subscription.dead_handler is not None
        given = subscription.dead_handler.arguments
        assert given(readable) == (with_readable, {})
        assert given(unreadable) == (None if with_unreadable is None else (with_unreadable, {}))


def dead_event(topic: Topic[OrderPaid], payload: bytes | None) -> DeadEvent:
    envelope = decode_envelope(topic.prepare(PAID).parcel.envelope)
    if payload is not None:
        envelope = msgspec.structs.replace(envelope, payload=payload)
    event = topic.event_of(envelope)
    return DeadEvent(event.id, "g", "rejected", "no", 1, datetime.now(UTC), event.raw, event)


def test_groups_that_are_gone_for_the_topic_keep_no_room_in_it(app: Headrace) -> None:
    topic = app.topic(
        "orders", OrderPaid, max_length=10, group_gone_after=timedelta(hours=1), shards=2
    )
    assert topic.bound == Bound(5, gone_after_ms=3_600_000)
    latest = app.topic("clicks", OrderPaid, max_length=10, overflow="drop_oldest")
    assert latest.bound == Bound(10, drops_oldest=True, gone_after_ms=7 * 86_400_000)
    assert app.topic("mails", OrderPaid).bound is None
