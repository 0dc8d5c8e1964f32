"""Two versions of a program side by side: on every store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from headrace import Context, Headrace, JobFailed, Reject, RetryLater, UnknownJob
from headrace.core.job.history import decode_history
from headrace.core.job.ids import to_id
from headrace.core.workers import WORKERS, KnownTasks
from tests.tour.heard import Heard, Paid
from tests.tour.programs import other_program


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await claim():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_old_and_a_new_worker_run_all_jobs_of_a_new_task(app: Headrace) -> None:
    newer = await other_program(app)

    async def greet(number: int) -> int:
        return number

    @newer.task
    async def refund(number: int) -> int:
        return number

    newer.task(greet)
    known_task = app.task(greet)

    async with newer:
        async with app.worker(), newer.worker():
            jobs = await newer.enqueue_many([refund.call(number) for number in range(40)])
            known = await app.enqueue_many([known_task.call(number) for number in range(40)])
            assert [await job.result(60) for job in jobs] == list(range(40))
            assert [await job.result(60) for job in known] == list(range(40))
        infos = [await job.info() for job in jobs]
        assert {info.attempt for info in infos} == {1}
        assert await newer.admin.dead() == []


@pytest.fixture
async def impatient(app: Headrace) -> AsyncIterator[Headrace]:
    other = await other_program(app, unknown_task_after=0.5)

    @other.task
    async def known() -> None: ...

    async with other:
        yield other


async def test_a_task_that_nobody_knows_is_dead_after_a_while(
    app: Headrace, impatient: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def refund() -> None: ...

    caplog.set_level(logging.WARNING, "headrace.worker")
    async with impatient.worker():
        job = await refund.enqueue()
        with pytest.raises(JobFailed, match="has no task 'refund'; it has known"):
            await job.result(30)
    (dead,) = await app.admin.dead()
    assert (dead.reason, dead.attempts[0].number) == ("unknown_task", 1)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    (line,) = warned
    assert line.startswith(
        f"refund {job.id} goes back for other workers, and is dead (unknown_task) "
    )
    assert f"it has imported {__name__}; if it should know the task, name its module in " in line
    assert line.endswith("Headrace(include=[…]), or pass its Tasks() to app.include()")


async def test_the_time_of_the_first_meeting_outlives_the_worker(app: Headrace) -> None:
    older = await other_program(app)

    @app.task
    async def refund() -> None: ...

    @older.task
    async def known() -> None: ...

    job = await refund.enqueue()

    async def met() -> tuple[int, int | None]:
        (seen,) = await app.store.get("default", [to_id(job.id)], bodies=True)
        assert seen is not None
        return decode_history(seen.history).unknown_since_ms, seen.due_ms

    async def once() -> bool:
        return (await met())[0] > 0

    async def twice() -> bool:
        return (await met())[1] not in (None, due)

    async with older:
        async with older.worker():
            await eventually(once)
        since, due = await met()
        assert "It waits for a worker that knows its task 'refund'" in await app.admin.why(job.id)
        async with older.worker():
            await eventually(twice)
        assert (await met())[0] == since


async def test_jobs_whose_arguments_fit_only_one_of_two_versions_are_run_by_that(
    app: Headrace,
) -> None:
    newer = await other_program(app)

    @app.task(name="send")
    async def send(to: int, template: str = "plain") -> str:
        return f"{to} by {template}"

    @newer.task(name="send")
    async def send_newly(to: int, language: str = "en") -> str:
        return f"{to} in {language}"

    async with newer, app.worker(), newer.worker():
        calls = [send_newly.call(number, language="fr") for number in range(20)]
        calls += [send.call(number, template="fine") for number in range(20)]
        jobs = await app.enqueue_many(calls)
        expected = [f"{number} in fr" for number in range(20)]
        expected += [f"{number} by fine" for number in range(20)]
        assert [await job.result(60) for job in jobs] == expected
    assert {(await job.info()).attempt for job in jobs} == {1}
    assert await app.admin.dead() == []


async def test_jobs_of_a_key_that_go_back_keep_their_order(app: Headrace, heard: Heard) -> None:
    newer = await other_program(app)

    @app.task(name="send")
    async def send(to: str) -> None: ...

    @newer.task(name="send")
    async def send_newly(to: str, number: int) -> None:
        heard.add(to, number)

    async with newer, app.worker(), newer.worker():
        call = send_newly.options(key="ann").call
        jobs = await newer.enqueue_many([call("ann", number) for number in range(8)])
        for job in jobs:
            await job.result(60)
    assert heard["ann"] == list(range(8))


@pytest.mark.parametrize("company", ["nobody", "its like", "of another queue"])
async def test_arguments_that_no_other_version_takes_are_dead_at_once(
    app: Headrace, caplog: pytest.LogCaptureFixture, company: str
) -> None:
    other, sender = await other_program(app), await other_program(app)

    async def send(to: str) -> None: ...

    app.task(name="send")(send)
    if company == "its like":
        other.task(name="send")(send)
    else:

        @other.task(name="send")
        async def send_otherwise(to: str, copies: int) -> None: ...

    @sender.task(name="send")
    async def send_newly(to: str, language: str) -> None: ...

    queues = ["print"] if company == "of another queue" else ["default"]
    async with other, sender, app.worker(), AsyncExitStack() as with_others:
        if company != "nobody":
            await with_others.enter_async_context(other.worker(queues=queues))
        job = await send_newly.enqueue("ann", "fr")
        with pytest.raises(JobFailed, match="there is no argument 'language'"):
            await job.result(30)
    (dead,) = await app.admin.dead()
    assert (dead.reason, len(dead.attempts)) == ("bad_arguments", 1)
    assert "goes back" not in caplog.text


@pytest.mark.parametrize("form", ["as now", "as before there were marks"])
async def test_arguments_for_another_version_wait_for_a_while_and_no_longer(
    app: Headrace, impatient: Headrace, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    @app.task(name="known")
    async def send(language: str) -> None: ...

    tasks: tuple[Any, ...] = astuple(KnownTasks.of({"known": send.signature.mark}))
    await app.store.kv_set(
        WORKERS,
        "another",
        msgspec.msgpack.encode(
            {
                "name": "another", "host": "h", "pid": 1, "started_ms": 1, "beat_ms": 1,
                "queues": {"default": 1}, "concurrency": 1, "running": 0, "version": "1",
                "python": "3", "tasks": tasks if form == "as now" else tasks[:2],
            }
        ),
        ttl=60,
    )  # fmt: skip
    assert "another" in [worker.name for worker in await app.admin.workers()]
    async with impatient.worker():
        job = await send.enqueue("fr")
        with pytest.raises(JobFailed, match="there is no argument 'language'"):
            await job.result(30)
    (dead,) = await app.admin.dead()
    assert (dead.reason, len(dead.attempts)) == ("bad_arguments", 1)
    assert "known " in caplog.text
    assert "goes back for other workers, and is dead (bad_arguments) if none" in caplog.text


async def test_an_event_of_a_later_version_waits_and_its_key_goes_on(
    app: Headrace, heard: Heard
) -> None:
    newer = await other_program(app)
    old = app.topic("orders", Paid, key=lambda event: event.order)
    new = newer.topic("orders", Paid, key=lambda event: event.order, version=2)

    async def ledger(event: Paid) -> None:
        heard.add("ledger", event.cents)

    old.subscribe("ledger", ordered=True)(ledger)
    new.subscribe("ledger", ordered=True)(ledger)

    async with newer, app.worker():
        for cents in range(3):
            event = await new.publish(Paid("o-1", cents))

        async def waits() -> bool:
            return "can read its version" in await app.admin.why(first, "ledger@orders")

        first = (await new.read())[0].id
        await eventually(waits)
        assert event != first
        async with newer.worker():
            await heard.until(ledger=3)
        assert heard["ledger"] == [0, 1, 2]
        assert await newer.admin.dead("ledger@orders") == []


async def test_an_event_of_a_later_version_is_left_to_others_in_an_unordered_group_too(
    app: Headrace, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    older = await other_program(app, unknown_task_after=0.5)
    old = older.topic("orders", Paid, key=lambda event: event.order)
    new = app.topic("orders", Paid, key=lambda event: event.order, version=3)

    async def handle(event: Paid) -> None:
        heard.add("old", event.cents)

    old.subscribe("mail")(handle)
    old.subscribe("ledger", ordered=True, on_failure="skip")(handle)

    async def dead(queue: str) -> bool:
        return bool(await app.admin.dead(queue))

    async with older, older.worker():
        await old.publish(Paid("o-1", 1))
        event = await new.publish(Paid("o-1", 2))
        await old.publish(Paid("o-2", 3))
        await heard.until(old=4)
        for queue in ("mail@orders", "ledger@orders"):
            await eventually(partial(dead, queue))
            (met,) = await app.admin.dead(queue)
            assert (met.id, met.reason, len(met.attempts)) == (event, "wrong_version", 1)
            assert "is of version 3, this subscriber expects 1" in met.error_text
    assert sorted(heard["old"]) == [1, 1, 3, 3]
    assert "goes back for other workers, and is dead (wrong_version)" in caplog.text
    assert f"it has imported {__name__}" in caplog.text


@pytest.mark.parametrize("run_in", ["loop", "thread"])
async def test_a_fallback_gets_jobs_that_nobody_knows_and_settles_them(
    app: Headrace, run_in: str
) -> None:
    older = await other_program(app)
    given: list[tuple[str, str, tuple[Any, ...], int]] = []

    @app.task
    async def refund(order: str, *, cents: int) -> str:
        return "by the task"

    @older.task
    async def known() -> None: ...

    def settle(job: UnknownJob, ctx: Context) -> str:
        given.append((job.id, job.task, job.args, ctx.attempt))
        if job.args[1] == 0:
            raise Reject("nothing to refund")
        if ctx.attempt == 1:
            raise RetryLater(0.0)
        return "by the fallback"

    if run_in == "thread":
        older.fallback(after=0.2)(settle)
    else:

        @older.fallback(after=timedelta(seconds=0.2))
        async def settle_later(ctx: Context, job: UnknownJob) -> str:
            return settle(job, ctx)

    async with older, older.worker():
        job = await refund.enqueue("o-1", cents=995)

        async def waits() -> bool:
            return bool(given) or "the fallback 'settle" in await older.admin.why(job.id)

        await eventually(waits)
        assert await job.result(30) == "by the fallback"
        rejected = await refund.enqueue("o-2", cents=0)
        with pytest.raises(JobFailed, match="nothing to refund"):
            await rejected.result(30)
    assert given == [
        (job.id, "refund", ("o-1", 995), 1),
        (job.id, "refund", ("o-1", 995), 2),
        (rejected.id, "refund", ("o-2", 0), 1),
    ]


async def test_a_worker_that_knows_the_task_is_before_the_fallback(app: Headrace) -> None:
    older = await other_program(app)
    rescued: list[str] = []

    @older.fallback
    async def rescue(job: UnknownJob) -> None:
        rescued.append(job.task)

    @older.task
    async def known() -> None: ...

    @app.task
    async def refund() -> str:
        return "by the task"

    async with older, older.worker(), app.worker():
        jobs = await app.enqueue_many([refund.call() for _ in range(10)])
        assert {await job.result(30) for job in jobs} == {"by the task"}
    assert rescued == []
