"""`on_dead` of a task is called for each death of its jobs, whatever they died of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, Reject, Retry, State, chain
from headrace.worker import service
from headrace.worker.upkeep import dead_walker
from headrace.worker.upkeep.dead_jobs import DeadJobReporter, reporters_of
from tests.worker.states import reach, until

Heard = list[tuple[str, str]]


def hearing(heard: Heard) -> Callable[[Job[Any], JobFailed], None]:
    def hear(job: Job[Any], failure: JobFailed) -> None:
        heard.append((job.id, failure.reason))

    return hear


def reporters(app: Headrace, queues: list[str] | None = None) -> list[DeadJobReporter]:
    return reporters_of(app, app.worker(queues=queues).settings, app.clock.now_ms)


async def test_it_is_called_at_once_whatever_a_job_died_of(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (service, dead_walker):
        monkeypatch.setattr(module, "POLL", 3600.0)
    heard: Heard = []

    @app.task(retry=Retry(2, backoff=[0.01]), on_dead=hearing(heard))
    async def work(number: int) -> int:
        raise ValueError("no")

    @app.task(queue="other")
    async def first() -> int:
        raise Reject("no")

    wrong: Any = app.task(name="wrong")(lambda text: None)
    misfit = wrong.call("seven")
    misfit.task = "work"
    expired = await work.options(expires=0.001).enqueue(1)
    await asyncio.sleep(0.01)
    async with app.worker():
        failed = await work.enqueue(1)
        unfit = await app.enqueue(misfit)
        child = await app.enqueue(chain(first.call(), work.call()))
        await until(lambda: len(heard) == 4)
    assert dict(heard) == {
        expired.id: "expired",
        failed.id: "retries_exhausted",
        unfit.id: "bad_arguments",
        child.id: "parent_failed",
    }


async def test_a_job_that_is_replayed_and_dies_again_is_reported_again(app: Headrace) -> None:
    heard: Heard = []

    @app.task(on_dead=hearing(heard))
    async def work() -> None:
        raise Reject("no")

    async with app.worker():
        job = await work.enqueue()
        await until(lambda: len(heard) == 1)
        assert await app.admin.replay([job.id]) == 1
        await until(lambda: len(heard) == 2)
    assert heard == [(job.id, "rejected")] * 2


async def test_those_that_died_before_are_reported_too_and_each_once(app: Headrace) -> None:
    heard: Heard = []

    async def refuse() -> None:
        raise Reject("no")

    plain = app.task(name="work")(refuse)
    other = app.task(name="other")(refuse)
    async with app.worker():
        jobs = [await plain.enqueue() for _ in range(60)]
        await reach([*jobs, await other.enqueue()], State.DEAD)
    del app.tasks["work"]
    app.task(name="work", on_dead=hearing(heard))(refuse)
    for _ in range(2):
        async with app.worker():
            await until(lambda: len(heard) >= 60)
    assert sorted(heard) == sorted((job.id, "rejected") for job in jobs)


async def test_a_worker_that_does_not_know_a_handler_passes_over_no_death(app: Headrace) -> None:
    """Two versions of a program side by side."""
    heard: Heard = []

    async def refuse() -> None:
        raise Reject("no")

    app.task(name="old", on_dead=hearing(heard))(refuse)
    new = app.task(name="new")(refuse)
    async with app.worker():
        job = await new.enqueue()
        later = await app.tasks["old"].enqueue()
        await until(lambda: len(heard) == 1)
    del app.tasks["new"]
    app.task(name="new", on_dead=hearing(heard))(refuse)
    async with app.worker():
        await until(lambda: len(heard) == 2)
    assert heard == [(later.id, "rejected"), (job.id, "rejected")]


async def test_what_is_sent_twice_is_added_once(app: Headrace) -> None:
    """The worker stops between the send and the cursor."""
    heard: Heard = []

    @app.task(on_dead=hearing(heard))
    async def work() -> None:
        raise Reject("no")

    async with app.worker():
        jobs = [await work.enqueue() for _ in range(3)]
        await until(lambda: len(heard) == 3)
    for name in list(await app.store.kv_all("on_dead")):
        await app.store.kv_set("on_dead", name, None)
    (one,) = reporters(app)
    await one.poll("default")
    assert (await app.store.count("default")).waiting == 0
    assert {id for id, _ in heard} == {job.id for job in jobs}


async def test_deaths_are_found_in_queues_that_only_senders_name(app: Headrace) -> None:
    heard: Heard = []

    @app.task(on_dead=hearing(heard))
    async def work() -> None:
        raise Reject("no")

    @app.task(queue="other", on_dead=hearing(heard))
    async def rest() -> None: ...

    async with app.worker(queues=["default", "tenant-7", "other"]):
        jobs = [await work.options(queue=queue).enqueue() for queue in ("tenant-7", "other")]
        await until(lambda: len(heard) == 2)
    assert sorted(heard) == sorted((job.id, "rejected") for job in jobs)


def test_nothing_is_done_for_tasks_without_a_handler() -> None:
    app = Headrace("memory://")

    @app.task
    async def work() -> None: ...

    assert not reporters(app)

    @app.task(queue="other", on_dead=lambda job: None)
    async def reported() -> None: ...

    (one,) = reporters(app)
    assert list(one._next_at) == ["other"]
    assert not reporters(app, ["default"])
