"""How large things may be: the same limit everywhere, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Context, Headrace, Job, JobFailed, PayloadTooLarge, Retry
from tests.worker.states import until


def limited(app: Headrace, most: int) -> Headrace:
    """The same store, as an app with another limit sees it."""
    return Headrace(app.url, namespace=app.namespace, max_payload=most)


async def test_a_job_is_dead_if_its_arguments_are_a_byte_over_the_workers_limit(
    store_url: str, namespace: str
) -> None:
    ran: list[int] = []
    sending = Headrace(store_url, namespace=namespace)

    @sending.task
    async def keep(text: str) -> None:
        ran.append(len(text))

    size = len(keep.call("x" * 100).payload)
    app = Headrace(store_url, namespace=namespace, max_payload=size)
    app.task(keep.function)
    if store_url == "memory://":
        # Two apps on one store in memory.
        app._store = sending.store
    async with sending, app, app.worker():
        fits, over = await keep.enqueue("x" * 100), await keep.enqueue("x" * 101)
        await fits.result(timeout=30)
        with pytest.raises(JobFailed) as told:
            await over.result(timeout=30)
        assert told.value.reason == "oversize"
        with pytest.raises(PayloadTooLarge):
            await app.tasks[keep.name].enqueue("x" * 101)
    assert ran == [100]


async def test_a_topic_may_have_a_larger_limit_than_its_app(app: Headrace) -> None:
    small = limited(app, 1000)
    small._store = app.store
    topic = small.topic("films", bytes, max_payload=500_000)
    handled: list[int] = []

    @topic.subscribe("viewers")
    async def view(film: bytes) -> None:
        handled.append(len(film))

    async with small, small.worker():
        await topic.publish(bytes(400_000))
        await until(lambda: handled == [400_000])


@pytest.mark.parametrize("how", ["async", "thread"])
async def test_a_value_of_once_has_the_same_limit(app: Headrace, how: str) -> None:
    small = limited(app, 100)
    small._store = app.store
    seen: list[Any] = []
    errors: list[BaseException] = []

    @small.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        errors.append(error)

    @small.task(retry=Retry(2, backoff=[0.01]))
    async def spread(ctx: Context, size: int) -> None:
        async with ctx.once("work") as work:
            seen.append(work.first)
            if work.first:
                work.value = bytes(size)
        seen.append(work.value)

    @small.task(retry=Retry(2, backoff=[0.01]))
    def spread_in_thread(ctx: Context, size: int) -> None:
        with ctx.once("work") as work:
            seen.append(work.first)
            if work.first:
                work.value = bytes(size)
        seen.append(work.value)

    task = spread if how == "async" else spread_in_thread
    async with small, small.worker():
        job: Job[None] = await task.enqueue(98)
        await job.result(timeout=30)
        assert seen == [True, bytes(98)]
        seen.clear()
        job = await task.enqueue(99)
        await job.result(timeout=30)
        # Done, and noted so, but without the value.
        assert seen == [True, False, None]
        await until(lambda: errors)
    assert "its value takes 101 bytes, the limit is 100" in str(errors[0])
