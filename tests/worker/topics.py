"""A topic to test workers with."""

from __future__ import annotations

import msgspec

from headrace import Headrace
from headrace.client.topic.topic import Topic
from headrace.store.topics import GroupState


class Order(msgspec.Struct, frozen=True):
    id: str
    cents: int = 0


def orders_of(app: Headrace, shards: int = 1) -> Topic[Order]:
    return app.topic("orders", Order, key=lambda order: order.id, shards=shards)


async def group_of(app: Headrace, name: str, log: str = "@orders") -> GroupState:
    """A group as the store has it."""
    (found,) = [group for group in (await app.store.groups([log]))[log] if group.name == name]
    return found
