"""Pausing a queue or a task, on every store."""

from __future__ import annotations

import asyncio

import pytest

from headrace import ConfigError, Headrace, Job, ResultTimeout, State


async def test_a_paused_queue_starts_nothing_until_it_is_resumed(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> str:
        return "sent"

    @app.task
    async def other() -> str:
        return "done"

    await app.store.pause("mail")
    async with app.worker(queues=["mail", "default"]):
        job = await send.enqueue()
        assert await (await other.enqueue()).result(30) == "done"
        with pytest.raises(ResultTimeout):
            await job.result(0.2)
        await app.store.resume("mail")
        assert await job.result(30) == "sent"


async def test_a_running_worker_obeys_the_pause_of_a_queue(app: Headrace) -> None:
    @app.task
    async def send() -> str:
        return "sent"

    async def unsent() -> Job[str]:
        """One that is not begun. Those before may be: a read that was under way brings some."""
        while True:
            job = await send.enqueue()
            try:
                await job.result(0.1)
            except ResultTimeout:
                return job

    async with app.worker(queues=["default", "other"]):
        assert await (await send.enqueue()).result(30) == "sent"
        await app.store.pause("default")
        jobs = [await unsent(), *[await send.enqueue() for _ in range(20)]]
        # Brought by reads that began later.
        for _ in range(3):
            await (await send.options(queue="other").enqueue()).result(30)
        assert {await job.status() for job in jobs} == {State.WAITING}
        await app.store.resume("default")
        assert [await job.result(30) for job in jobs] == ["sent"] * 21


async def test_a_paused_task_starts_nothing_and_others_go_on(app: Headrace) -> None:
    order: list[int] = []

    @app.task
    async def send(number: int) -> None:
        order.append(number)

    @app.task
    async def other() -> str:
        return "done"

    await app.store.pause("default", "send")
    async with app.worker(concurrency=1):
        jobs = [await send.enqueue(number) for number in range(5)]
        assert await (await other.enqueue()).result(30) == "done"
        while not all([await job.status() is State.BLOCKED for job in jobs]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await jobs[0].info()).waits_for == "task send"
        assert order == []
        await app.store.resume("default", "send")
        for job in jobs:
            await job.result(30)
    assert sorted(order) == [0, 1, 2, 3, 4]


async def test_a_pause_outlives_the_worker(app: Headrace) -> None:
    @app.task
    async def send() -> str:
        return "sent"

    await app.store.pause("default")
    job = await send.enqueue()
    for _ in range(2):
        async with app.worker():
            with pytest.raises(ResultTimeout):
                await job.result(0.1)
    await app.store.resume("default")
    async with app.worker():
        assert await job.result(30) == "sent"


async def test_queues_share_a_worker_by_weight(app: Headrace) -> None:
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    for queue in ("rare", "often"):
        await app.enqueue_many(note.options(queue=queue).call(queue) for _ in range(40))
    last = await note.options(queue="rare").enqueue("rare")
    async with app.worker(queues={"often": 3, "rare": 1}, concurrency=8):
        await last.result(30)
    first = order[:40]
    assert first.count("often") > first.count("rare") > 0


async def test_a_strict_worker_takes_queues_in_their_order(app: Headrace) -> None:
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    jobs = []
    for queue in ("later", "first"):
        jobs += await app.enqueue_many(note.options(queue=queue).call(queue) for _ in range(10))
    async with app.worker(queues=["first", "later"], strict=True, concurrency=4):
        for job in jobs:
            await job.result(30)
    assert order == ["first"] * 10 + ["later"] * 10


@pytest.mark.parametrize("weight", [0, -1, 1.5, "3", True])
def test_a_weight_that_is_none_is_refused(weight: int) -> None:
    with pytest.raises(ConfigError, match="weight of queue 'mail'"):
        Headrace("memory://").worker(queues={"mail": weight})


def test_weights_and_a_strict_order_are_not_taken_together() -> None:
    with pytest.raises(ConfigError, match="strict=True takes queues in their order"):
        Headrace("memory://").worker(queues={"mail": 2}, strict=True)
