"""Dead jobs for tests, without a worker that takes its time."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import Headrace
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.envelope import encode_envelope, peek_id
from headrace.core.job.history import Attempt, History, encode_history
from headrace.core.job.ids import new_id, to_id, to_text
from headrace.core.job.outcome import Dead
from headrace.core.job.parcel import Parcel
from headrace.store.contract import Settlement


async def bury(
    app: Headrace,
    envelopes: Sequence[bytes],
    *,
    queue: str = "default",
    reason: str = "rejected",
    history: History | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
) -> list[str]:
    """Send these envelopes and have them judged dead, in this order; their ids."""
    store = (await app.session()).store
    job_ids = [peek_id(envelope) or new_id() for envelope in envelopes]
    pairs = zip(job_ids, envelopes, strict=True)
    await store.append(queue, [Parcel(*pair, constraints=constraints) for pair in pairs])
    consumer = store.consumer(f"undertaker-{to_text(new_id())}", [queue], 30.0)
    left = set(job_ids)
    while left:
        deliveries = await consumer.fetch(len(left), 1.0)
        for delivery in deliveries:
            delivery.job_id = peek_id(delivery.envelope)
            if not delivery.job_id:
                (delivery.job_id,) = (key for key in left if len(left) == 1)
            left.remove(delivery.job_id)
        outcome = Dead(reason, encode_history(history or one_attempt()))
        await consumer.settle(queue, [Settlement(delivery, outcome) for delivery in deliveries])
    await consumer.close()
    return [to_text(key) for key in job_ids]


def envelope(task: str = "send", *arguments: object, id: str | None = None) -> bytes:
    from headrace.core import codec

    return encode_envelope(to_id(id) if id else new_id(), task, codec.encode(arguments))


def one_attempt(text: str = "no such user") -> History:
    return History((Attempt(1, 1_000_000, 1_002_500, "worker-1", "ValueError", text, "trace"),), 1)
