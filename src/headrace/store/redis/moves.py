"""Jobs on their way from one queue to another: a message in the first, then a job in the second.

The two queues may be on two nodes of a cluster. A job is taken out of the first queue, and written
into a message beside its flow messages, in one step. The caller, or the flow relay of a worker,
adds the job to the second queue, under a key that makes all tries one, and then removes the
message.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.errors import StoreError
from headrace.store.redis import script_stubs
from headrace.store.redis.encoding import is_move, moved_job
from headrace.store.values import IdempotencyKey

if TYPE_CHECKING:
    from headrace.store.redis.sending import RedisSending

log = logging.getLogger("headrace.store")

_TOGETHER = 1000


async def deliver(store: RedisSending, queue: str) -> None:
    """Deliver the moved jobs of a queue; what fails is left to its workers, or to the next call."""
    keys = store.keys(queue)
    entries = await store.links().ask.call(
        "XRANGE", keys.flow_messages, "-", "+", "COUNT", _TOGETHER, key=keys.flow_messages
    )
    for id, fields in entries:
        if is_move(fields):
            try:
                await _deliver_one(store, queue, id.decode(), fields)
            except StoreError as error:
                log.warning(
                    "a job of %r is still on its way to another queue: %s",
                    *(queue, error),
                    extra={"queue": queue},
                )
                return


async def _deliver_one(store: RedisSending, queue: str, id: str, fields: list[bytes]) -> None:
    try:
        target, job = moved_job(fields)
    except (KeyError, ValueError):
        log.error(
            "a message of queue %r cannot be read, and is dropped: %r",
            *(queue, fields),
            extra={"queue": queue},
        )
    else:
        once = IdempotencyKey()
        once.id = f"moved-{queue}-{id} 1"
        await store.append(target, [job], may_exist=True, idempotency=once)
    await script_stubs.ack_flow_messages(store.links().send, store.keys(queue), entries=[id])
