"""Events that cannot be handled, among others that can."""

from __future__ import annotations

import asyncio

import msgspec

from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.parcel import Parcel
from headrace.store.topics import Published
from headrace.store.values import Counts
from tests.faults import post
from tests.faults.crew import LONG, Crew, eventually
from tests.faults.flooding import LOG, QUEUES, Flood, Post, publish


def poison() -> dict[str, Parcel]:
    """Events, by why they go dead in every group. Each has a key that it may stop."""
    pack = msgspec.msgpack.encode
    odd, large = ids.new_id(), ids.new_id()
    envelopes = {
        "malformed": (ids.new_id(), b"\xc1 not an event"),
        "bad_event": (odd, encode_envelope(odd, LOG, pack({"customer": 7}))),
        "oversize": (large, encode_envelope(large, LOG, pack(post.Order("x" * 5000, 1)))),
    }
    return {
        reason: Parcel(key, envelope, constraints=Constraints(lane=reason))
        for reason, (key, envelope) in envelopes.items()
    }


async def survive_poison(crew: Crew, others: int) -> None:
    """What cannot be read or kills its worker is dead with its bytes; the rest flows."""
    office = Post(crew)
    bad = poison()
    plan = Flood(keys=others // 10, per_key=10)
    await office.topic.publish(post.Order("first", 0))
    store = await office.store()
    assert await store.publish(LOG, list(bad.values())) == Published(len(bad))
    deadly = await office.topic.publish(post.Order(post.DEADLY, 0))
    await publish(office, plan)
    over = asyncio.Event()
    keeping = asyncio.create_task(_keep_running(office, over))
    try:

        async def all_buried() -> bool:
            counts = {group: await store.count(queue) for group, queue in QUEUES.items()}
            expected = {group: Counts(dead=len(bad)) for group in QUEUES}
            expected["billing"] = Counts(dead=len(bad) + 1)
            return counts == expected

        await eventually("all else is handled, and the poison is dead", all_buried, 3 * LONG)
    finally:
        over.set()
        await keeping
    ends = {(line.group, line.customer) for line in office.lines if line.what == "end"}
    for group, queue in QUEUES.items():
        assert {(group, f"customer-{key}") for key in range(plan.keys)} <= ends
        dead = {job.reason: job for job in (await store.dead(queue)).jobs}
        if group == "billing":
            crashed = dead.pop("crash_loop")
            assert (ids.to_text(crashed.job_id), decode_history(crashed.history).crashes) == (
                deadly,
                3,
            )
        kept = {reason: job.envelope for reason, job in dead.items()}
        assert kept == {reason: item.envelope for reason, item in bad.items()}


async def _keep_running(office: Post, over: asyncio.Event) -> None:
    """As a supervisor would: whoever ends is replaced."""
    while not over.is_set():
        while len(office.crew.alive) < 2:
            office.start()
        await asyncio.sleep(0.05)
