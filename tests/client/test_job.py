"""The handle of a job: what can be asked and done with it from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import ConfigError, Headrace, JobCancelled, JobNotFound, ResultTimeout, State
from headrace.benchmark.asgi_client import counted
from headrace.core.job.progress import decode_progress
from headrace.errors import StoreUnavailable


async def test_a_waiting_job_is_cancelled_and_never_starts(app: Headrace) -> None:
    started: list[int] = []

    @app.task
    async def work() -> None:
        started.append(1)

    job = await work.enqueue()
    assert await job.cancel()
    assert await job.status() is State.CANCELLED
    with pytest.raises(JobCancelled):
        await job.result(30)
    async with app.worker():
        with pytest.raises(JobCancelled):
            await job.result(30)
    assert started == []


async def test_a_scheduled_job_is_cancelled(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.options(delay=3_600).enqueue()
    assert await job.cancel()
    assert await job.status() is State.CANCELLED


async def test_a_running_job_is_cancelled_and_its_waiters_wake(app: Headrace) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with app.worker():
        job = await work.enqueue()
        await begun.wait()
        waiting = asyncio.create_task(job.result(30))
        assert await job.cancel()
        with pytest.raises(JobCancelled):
            await waiting
        assert ended.is_set()
        assert await job.status() is State.CANCELLED


async def test_to_cancel_twice_is_to_cancel_once(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    assert [await job.cancel(), await job.cancel()] == [True, True]


async def test_a_job_that_has_ended_is_not_cancelled(app: Headrace) -> None:
    @app.task
    async def work() -> int:
        return 7

    async with app.worker():
        job = await work.enqueue()
        await job.result(30)
        assert not await job.cancel()
        assert await job.result(30) == 7


async def test_an_unknown_job_cannot_be_cancelled(app: Headrace) -> None:
    with pytest.raises(JobNotFound):
        await app.job("nobody").cancel()


def test_a_program_without_an_event_loop_asks_and_cancels_too(
    store_url: str, namespace: str
) -> None:
    app = Headrace(store_url, namespace=namespace)

    @app.task
    async def work() -> None: ...

    job = work.enqueue_sync()
    assert (job.status_sync(), job.info_sync().task) == (State.WAITING, work.name)
    assert job.cancel_sync()
    assert (job.status_sync(), job.info_sync().state) == (State.CANCELLED, State.CANCELLED)
    with pytest.raises(JobCancelled):
        job.result_sync(30)
    app.portal.close()


async def test_a_cancelled_job_stays_cancelled_although_its_worker_hears_nothing(
    app: Headrace,
) -> None:
    """The request is kept in the store: a signal that is lost costs time, not the cancellation."""
    begun = asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app.worker():
        job = await work.enqueue()
        await begun.wait()
        other = Headrace(app.url, namespace=app.namespace)
        canceller = app if app.url == "memory://" else other
        assert await canceller.job(job.id).cancel()
        with pytest.raises(JobCancelled):
            await job.result(30)
        await other.close()


async def test_a_watch_that_is_given_up_leaves_nothing_behind(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    async for update in job.watch():
        assert update.state is State.WAITING
        break
    with pytest.raises(ResultTimeout):
        await job.result(0.01)


async def test_a_watch_polls_at_a_reasonable_pace(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="poll"):
        async for _ in app.job("nobody").watch(poll=0):
            pass


async def test_a_job_is_found_by_its_id_however_many_queues_there_are(app: Headrace) -> None:
    for number in range(20):

        @app.task(name=f"work-{number}", queue=f"queue-{number:02}")
        async def work() -> None: ...

    job = await work.enqueue()
    asked = await counted(app)
    assert await app.job(job.id).status() is State.WAITING
    with pytest.raises(JobNotFound):
        await app.job("unknown").status()
    assert asked.calls.total() <= 5, asked.calls


async def test_who_waits_for_a_job_waits_in_the_queue_that_it_is_moved_to(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(queue="near")
    async def work(number: int) -> int:
        return number

    job = await work.options(delay=3_600).enqueue(7)
    waiting = asyncio.create_task(job.result(30))
    begun = await asked_in(app, "near", monkeypatch)
    async with app.worker(queues=["far"]):
        await begun.wait()
        assert await app.admin.reschedule(job.id, queue="far", delay=0.5) == 1
        assert await waiting == 7
    assert (await job.info()).queue == "far"


async def test_who_waits_hears_nothing_false_while_a_job_is_on_its_way(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(queue="near")
    async def work(number: int) -> int:
        return number

    job = await work.options(delay=3_600).enqueue(7)
    found = [None, None, "near", "far"]

    async def find_queue(job_id: bytes) -> str | None:
        return found.pop(0)

    await app.admin.reschedule(job.id, queue="far", delay=0)
    monkeypatch.setattr(app, "find_queue", find_queue)
    async with app.worker(queues=["far"]):
        assert await job.result(30) == 7
    assert not found


async def test_a_handle_asks_in_the_queue_that_its_job_was_moved_to(app: Headrace) -> None:
    @app.task(queue="near")
    async def work() -> None: ...

    asked, cancelled = [await work.options(delay=3_600).enqueue() for _ in range(2)]
    ids = [asked.id, cancelled.id]
    assert await app.admin.reschedule(ids, queue="far") == 2
    assert await asked.status() is State.SCHEDULED
    assert await cancelled.cancel()
    assert await app.job(cancelled.id).status() is State.CANCELLED


async def asked_in(app: Headrace, queue: str, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once someone waits for a job of this queue."""
    store, begun = (await app.session()).store, asyncio.Event()
    listen = store.on_finished

    async def on_finished(name: str, listener: Any) -> Any:
        heard = await listen(name, listener)
        if name == queue:
            begun.set()
        return heard

    monkeypatch.setattr(store, "on_finished", on_finished)
    return begun


def test_a_progress_that_cannot_be_read_is_none() -> None:
    assert decode_progress(b"") is None
    assert decode_progress(b"\xc1") is None
    assert decode_progress(b"\x93\xa1x\xa1y\xa1z") is None


async def test_a_result_that_does_not_come_says_why(app: Headrace) -> None:
    @app.task(queue="mail")
    async def work() -> None: ...

    job = await work.enqueue()
    with pytest.raises(ResultTimeout) as raised:
        await job.result(0.01)
    error = raised.value
    assert error.why == "It is waiting: no worker is running that reads queue 'mail'."
    assert (error.store, error.waited) == (app.shown_url, 0.01)
    assert str(error) == (
        f"job {job.id} has not ended within 0.01 s, in {app.shown_url}. It is waiting: no worker "
        "is running that reads queue 'mail'."
    )
    await job.cancel()


async def test_a_store_that_does_not_answer_gives_no_reason(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work() -> None: ...

    async def away(*args: object, **options: object) -> str:
        raise StoreUnavailable("gone")

    monkeypatch.setattr("headrace.admin.jobs.job_admin.JobAdmin.why", away)
    job = await work.enqueue()
    with pytest.raises(ResultTimeout) as raised:
        await job.result(0.01)
    assert (raised.value.why, raised.value.store) == ("", "")
    assert str(raised.value) == f"job {job.id} has not ended within 0.01 s"
    await job.cancel()
