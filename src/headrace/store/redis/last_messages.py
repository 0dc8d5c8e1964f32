"""The messages of a queue that is about to be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import StoreUnavailable
from headrace.store.redis import moves, script_stubs
from headrace.store.redis.encoding import is_move
from headrace.store.redis.upkeep import message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.store.redis.sending import RedisSending
    from headrace.store.values import Arrival

    Arrive = Callable[[str, list[Arrival]], Awaitable[object]]

_TOGETHER = 500


async def deliver(store: RedisSending, queue: str, arrive: Arrive) -> None:
    """Deliver the oldest messages to other queues, ends of jobs with the store's `arrive`. One that
    cannot be read is dropped."""
    await moves.deliver(store, queue)
    keys = store.keys(queue)
    entries = await store.links().ask.call(
        "XRANGE", keys.flow_messages, "-", "+", "COUNT", _TOGETHER, key=keys.flow_messages
    )
    endings = [(id, fields) for id, fields in entries if not is_move(fields)]
    if entries and not endings:
        raise StoreUnavailable(f"jobs of queue {queue!r} are still on their way to others")
    arrivals: dict[str, list[Arrival]] = {}
    for id, fields in endings:
        try:
            message = message_of(id, fields)
        except (KeyError, ValueError):
            continue
        arrivals.setdefault(message.queue, []).append(message.arrival)
    for to, batch in arrivals.items():
        await arrive(to, batch)
    if endings:
        done = [id.decode() for id, _ in endings]
        await script_stubs.ack_flow_messages(store.links().send, keys, entries=done)
