"""A delivery is settled by hand once, from wherever it is held."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace import (
    ConfigError,
    Defer,
    Delivery,
    DeliveryUsed,
    Headrace,
    LeaseLost,
    Reject,
    RetryLater,
)
from headrace.client.topic.manual_settlement import DeliveryDropped, ManualSettlement
from headrace.core.job.envelope import decode_envelope


def delivery(manual: ManualSettlement | None = None, ack: str = "manual") -> Delivery:
    topic = Headrace("memory://").topic("notes", str)
    envelope = decode_envelope(topic.prepare("x", key="k", source="shop").parcel.envelope)
    return Delivery(topic.event_of(envelope), "audit", attempt=2, fence=3, ack=ack, manual=manual)


async def worker(manual: ManualSettlement, error: Exception | None = None) -> Any:
    """Does what a worker does: awaits the decision, and has it written."""
    decision = await manual.decided()
    manual.written(error)
    return decision


async def test_a_delivery_says_what_is_known_of_its_event() -> None:
    made = delivery()
    assert (made.topic, made.group, made.key, made.source) == ("notes", "audit", "k", "shop")
    assert (made.attempt, made.fence, made.redeliveries, made.redelivered) == (2, 3, 2, True)
    assert (made.shard, made.deaths, await made.place()) == (0, 0, None)
    assert (made.type, dict(made.headers), made.correlation_id) == ("str", {}, None)
    assert made.id == made.event.id
    assert made.time == made.event.time == made.occurred_at
    assert made.event.data == "x"


@pytest.mark.parametrize(
    ("verb", "args", "decision"),
    [
        ("ack", (), None),
        ("retry", (5,), RetryLater),
        ("retry", (), RetryLater),
        ("reject", ("why",), Reject),
        ("defer", (5,), Defer),
    ],
)
async def test_each_verb_reaches_the_worker_and_waits_for_it(
    verb: str, args: tuple[Any, ...], decision: type | None
) -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    said = asyncio.create_task(getattr(made, verb)(*args))
    decided = await manual.decided()
    assert (None if decided is None else type(decided)) == decision
    if isinstance(decided, Defer):
        assert decided.delay == 5
    if isinstance(decided, Reject):
        assert str(decided) == "why"
    assert not said.done()
    manual.written()
    await said


@pytest.mark.parametrize("verb", ["ack", "retry", "reject", "defer"])
async def test_a_delivery_is_used_once(verb: str) -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    working = asyncio.create_task(worker(manual))
    await made.ack()
    assert await working is None
    assert made.used
    args = {"reject": ("why",), "defer": (1,)}.get(verb, ())
    with pytest.raises(DeliveryUsed, match=r"event .* to group 'audit' was settled already"):
        await getattr(made, verb)(*args)
    with pytest.raises(DeliveryUsed):
        await asyncio.to_thread(getattr(made, f"{verb}_sync"), *args)


async def test_of_many_that_decide_at_once_one_does() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    working = asyncio.create_task(worker(manual))
    barrier = threading.Barrier(20)

    def decide() -> None:
        barrier.wait()
        made.ack_sync()

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(20) as pool:
        answers = await asyncio.gather(
            *(loop.run_in_executor(pool, decide) for _ in range(20)), return_exceptions=True
        )
    await working
    assert sorted(type(answer).__name__ for answer in answers) == ["DeliveryUsed"] * 19 + [
        "NoneType"
    ]


async def test_a_function_in_a_thread_settles_without_a_loop() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    working = asyncio.create_task(worker(manual))
    await asyncio.to_thread(made.reject_sync, "why")
    assert isinstance(await working, Reject)


async def test_in_a_loop_the_sync_verbs_are_refused_and_use_nothing_up() -> None:
    made = delivery(ManualSettlement())
    with pytest.raises(ConfigError, match="await the async ones"):
        made.ack_sync()
    assert not made.used
    made._undecided.clear()


async def test_a_wrong_delay_is_refused_and_uses_nothing_up() -> None:
    made = delivery()
    with pytest.raises(ConfigError):
        await made.defer(-1)
    assert not made.used


async def test_what_the_store_did_not_write_is_reported() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    working = asyncio.create_task(worker(manual, LeaseLost("another worker has it")))
    with pytest.raises(LeaseLost):
        await made.ack()
    await working


async def test_a_run_that_ended_in_another_way_cannot_be_settled() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    manual.close()
    with pytest.raises(DeliveryUsed):
        await made.ack()
    manual = ManualSettlement()
    made = delivery(manual)
    manual.close(LeaseLost("another worker has it"))
    with pytest.raises(LeaseLost):
        await made.ack()


@pytest.mark.parametrize("ack", ["success", "receive"])
async def test_a_group_that_acknowledges_by_itself_is_not_settled_by_hand(ack: str) -> None:
    manual = ManualSettlement()
    made = delivery(manual, ack)
    with pytest.raises(ConfigError, match="ack='manual'"):
        await made.ack()
    del made
    gc.collect()
    await asyncio.sleep(0)
    assert not manual._decision.done()


async def test_the_worker_learns_of_a_delivery_that_is_let_go_of() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    deciding = asyncio.create_task(manual.decided())
    await asyncio.sleep(0)
    assert not deciding.done()
    del made
    gc.collect()
    with pytest.raises(DeliveryDropped):
        await deciding


async def test_the_worker_learns_of_one_let_go_of_in_another_thread_too() -> None:
    manual = ManualSettlement()
    held = [delivery(manual)]
    await asyncio.to_thread(held.clear)
    with pytest.raises(DeliveryDropped):
        await manual.decided()


def test_a_delivery_may_outlive_its_loop() -> None:
    held = []

    async def hold() -> None:
        held.append(delivery(ManualSettlement()))

    asyncio.run(hold())
    held.clear()


async def test_one_who_stops_waiting_has_said_it_nevertheless() -> None:
    manual = ManualSettlement()
    made = delivery(manual)
    said = asyncio.create_task(made.ack())
    assert await manual.decided() is None
    said.cancel()
    await asyncio.wait([said])
    manual.written()
    assert made.used
