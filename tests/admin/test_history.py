"""What people see of jobs that are done or cancelled, and what they can do to it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headrace import ConfigError, Context, Headrace, JobNotFound, Retry, State, chain
from headrace.core.job import ids
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.store.contract import Settlement
from tests.admin.counting import counted
from tests.faults.crew import LONG, eventually


async def becomes(app: Headrace, id: str, state: State) -> None:
    async def is_so() -> bool:
        return await app.job(id).status() is state

    await eventually(f"{id} is {state}", is_so)


async def test_a_mail_that_needed_three_attempts_shows_them(app: Headrace) -> None:
    @app.task(retry=Retry(5, backoff="fixed", base=0.001))
    async def send(ctx: Context, to: str) -> str:
        ctx.progress(0.5, "half")
        ctx.log(f"try {ctx.attempt}")
        if ctx.attempt < 3:
            raise ConnectionError(f"no answer {ctx.attempt}")
        return f"sent to {to}"

    async with app.worker():
        job = await send.enqueue("ann")
        await job.result(LONG)
    info = await app.job(job.id).info()
    assert (info.state, info.task, info.attempt, info.queue) == (State.DONE, "send", 3, "default")
    assert (info.result, info.result_kept) == ("sent to ann", True)
    errors = [attempt.error for attempt in info.attempts]
    assert errors == ["ConnectionError: no answer 1", "ConnectionError: no answer 2", ""]
    assert [attempt.number for attempt in info.attempts] == [1, 2, 3]
    assert {attempt.worker for attempt in info.attempts} == {info.worker}
    assert all(attempt.started <= attempt.ended for attempt in info.attempts)
    assert info.ended is not None
    assert info.sent is not None
    assert info.sent <= info.attempts[0].started + timedelta(seconds=1)
    assert info.waited is not None
    assert info.took is not None
    assert info.progress is not None
    assert info.progress.fraction == 0.5
    assert await job.log() == ["try 1", "try 2", "try 3"]
    detail = await app.admin.job(job.id)
    assert (detail.arguments, detail.result, detail.result_kept) == (
        {"to": "ann"},
        "sent to ann",
        True,
    )
    assert [attempt.error for attempt in detail.attempts] == errors
    assert (detail.error, detail.attempt, detail.worker) == (None, 3, info.worker)


async def test_a_dead_job_says_how_long_it_waited(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def fail() -> None:
        raise ValueError

    job = await fail.enqueue()
    sent_ms = await app.store.time_ms()
    await asyncio.sleep(0.1)
    async with app.worker():
        await becomes(app, job.id, State.DEAD)
    info = await job.info()
    assert info.started is not None
    assert info.waited is not None
    # Since it was sent, not since some worker came.
    since_sent = info.started.timestamp() - sent_ms / 1000
    assert info.waited >= since_sent - 0.002
    assert since_sent > 0
    assert (await app.admin.job(job.id)).waited == info.waited


async def test_done_and_cancelled_jobs_are_listed_with_the_filters_of_others(
    app: Headrace,
) -> None:
    @app.task(result_ttl=0)
    async def send(to: str) -> None: ...

    @app.task(queue="mail")
    async def count(number: int) -> int:
        return number

    async with app.worker():
        jobs = [await count.enqueue(number) for number in range(5)]
        sent = await send.enqueue("ann")
        for job in jobs:
            await job.result(LONG)
        await becomes(app, sent.id, State.DONE)
    later = await send.options(delay=60).enqueue("bob")
    await later.cancel()
    done = await app.admin.jobs(state="done")
    assert [job.task for job in done.jobs].count("count") == 5
    assert len(done.jobs) == 6
    assert {job.state for job in done.jobs} == {State.DONE}
    assert all(job.ended and job.took is not None for job in done.jobs)
    found = await app.admin.jobs("mail", "done", search="[3]")
    assert [job.id for job in found.jobs] == [jobs[3].id]
    assert [job.id for job in (await app.admin.jobs(state="done", task="send")).jobs] == [sent.id]
    assert (await app.admin.jobs(state="done", until=timedelta(hours=1))).jobs == []
    assert len((await app.admin.jobs(state="done", since=timedelta(hours=1))).jobs) == 6
    cancelled = (await app.admin.jobs(state=State.CANCELLED)).jobs
    assert [job.id for job in cancelled] == [later.id]
    with pytest.raises(ConfigError, match="forget"):
        await app.admin.cancel(state="done")


async def test_forgotten_jobs_leave_nothing(app: Headrace) -> None:
    @app.task
    async def work(ctx: Context, number: int) -> int:
        ctx.log("a line")
        return number

    async with app.worker():
        jobs = [await work.enqueue(number) for number in range(4)]
        for job in jobs:
            await job.result(LONG)
    waiting = await work.enqueue(9)
    assert await app.admin.forget([jobs[0].id, jobs[1].id, waiting.id, "unknown"]) == 2
    assert await app.admin.forget(jobs[0].id) == 0
    with pytest.raises(JobNotFound):
        await app.job(jobs[0].id).info()
    assert await app.admin.by("ann").forget(jobs[2].id, "default") == 1
    assert [job.id for job in (await app.admin.jobs(state="done")).jobs] == [jobs[3].id]
    assert await waiting.status() is State.WAITING
    (action,) = await app.admin.actions()
    assert (action.verb, action.actor) == ("forget", "ann")


async def test_a_replayed_job_keeps_its_earlier_attempts(app: Headrace) -> None:
    failing = True

    @app.task(retry=Retry(2, backoff="fixed", base=0.001))
    async def send(to: str) -> None:
        if failing:
            raise ConnectionError("no answer")

    job = await send.enqueue("ann")
    async with app.worker():
        await becomes(app, job.id, State.DEAD)
        failing = False
        assert await app.admin.replay(job.id) == 1
        await job.result(LONG)
    info = await job.info()
    assert [attempt.error for attempt in info.attempts] == ["ConnectionError: no answer"] * 2 + [""]
    assert [attempt.number for attempt in info.attempts] == [1, 2, 3]
    assert info.attempt == 3


async def test_a_replayed_job_has_all_its_tries_again(app: Headrace) -> None:
    @app.task(retry=Retry(2, backoff="fixed", base=0.001))
    async def send(to: str) -> None:
        raise ConnectionError("no answer")

    job = await send.enqueue("ann")
    async with app.worker():
        for life in (1, 2, 3):
            await becomes(app, job.id, State.DEAD)
            (dead,) = await app.admin.dead()
            assert dead.reason == Reason.RETRIES_EXHAUSTED
            assert [attempt.number for attempt in dead.attempts] == list(range(1, 2 * life + 1))
            assert await app.admin.replay(job.id) == 1


async def test_a_job_that_is_cancelled_while_it_runs_shows_that_run(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app.worker():
        job = await work.enqueue()
        await asyncio.wait_for(begun.wait(), LONG)
        await job.cancel()
        await becomes(app, job.id, State.CANCELLED)
    info = await job.info()
    assert (info.task, info.attempt) == ("work", 1)
    (attempt,) = info.attempts
    assert (attempt.error, attempt.worker) == ("cancelled", info.worker)


async def test_the_graph_of_a_flow_stays_when_it_ends(app: Headrace) -> None:
    @app.task(result_ttl=0)
    async def add(number: int, more: int = 1) -> int:
        return number + more

    sent = await app.enqueue(chain(add.call(1), add.call(), add.call()))
    before = await app.admin.flow(sent.id)
    async with app.worker():
        await becomes(app, sent.id, State.DONE)
    flow = await app.admin.flow(sent.jobs[0].id)
    assert [job.id for job in flow.jobs] == [job.id for job in before.jobs]
    assert [job.parents for job in flow.jobs] == [job.parents for job in before.jobs]
    assert {job.state for job in flow.jobs} == {State.DONE}
    assert {job.task for job in flow.jobs} == {"add"}


async def test_a_task_can_keep_nothing_or_its_own_number(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, keep_done=timedelta(hours=2))

    @app.task(keep_done=0, result_ttl=0)
    async def never() -> None: ...

    @app.task(keep_done=2)
    async def few() -> None: ...

    @app.task
    async def plain() -> None: ...

    async with app, app.worker():
        for task in (never, few, plain) * 4:
            await task.enqueue()
        await eventually("all are done", lambda: _is_drained(app))
        done = [job.task for job in (await app.admin.jobs(state="done")).jobs]
    assert sorted(done, key=str) == ["few"] * 2 + ["plain"] * 4


async def _is_drained(app: Headrace) -> bool:
    counts = await app.store.count("default")
    return counts.waiting == counts.running == 0


@pytest.mark.parametrize("given", [-1, True, "ten", 1.5, timedelta(seconds=-1)])
def test_a_wrong_keep_done_is_refused_at_once(given: object) -> None:
    with pytest.raises(ConfigError, match="keep_done"):
        Headrace("memory://", keep_done=given)  # type: ignore[arg-type]
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match="keep_done"):
        app.task(keep_done=given)(print)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "most", "keep_ms"),
    [("500", 500, 30 * 86_400_000), ("90s", 100_000, 90_000), ("2h", 100_000, 7_200_000)],
)
def test_the_environment_sets_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, text: str, most: int, keep_ms: int
) -> None:
    monkeypatch.setenv("HEADRACE_KEEP_DONE", text)
    bounds = Headrace("memory://").history_rules.default
    assert bounds is not None
    assert (bounds.most, bounds.keep_ms) == (most, keep_ms)
    monkeypatch.setenv("HEADRACE_KEEP_DONE", "0")
    assert not Headrace("memory://").history_rules.keeps_any
    monkeypatch.setenv("HEADRACE_KEEP_DONE", "often")
    with pytest.raises(ConfigError, match="HEADRACE_KEEP_DONE='often'"):
        Headrace("memory://")


async def test_a_page_of_a_long_history_costs_few_calls(store_url: str, namespace: str) -> None:
    async with Headrace(store_url, namespace=namespace, keep_done=100_000) as app:
        await end_many(app, 20_000)
        async with counted(app) as calls:
            page = await app.admin.jobs("default", "done", limit=100)
        assert calls.total() <= 20
        assert len(page.jobs) == 100
        async with counted(app) as calls:
            second = await app.admin.jobs("default", "done", limit=100, cursor=page.cursor)
            found = await app.admin.jobs("default", "done", limit=10, scan=1000, search="17")
        assert calls.total() <= 20
        assert len({job.id for job in (*page.jobs, *second.jobs)}) == 200
        assert found.looked >= 500
        assert found.jobs


async def end_many(app: Headrace, count: int) -> None:
    """Have that many jobs done, without running them."""
    worker = app.store.consumer("worker", ["default"], 60.0)
    for start in range(0, count, 1000):
        parcels = []
        for number in range(start, start + 1000):
            job_id = ids.new_id()
            payload = b"\x91\xcd" + (number % 65_536).to_bytes(2, "big")
            parcels.append(Parcel(job_id, encode_envelope(job_id, "work", payload)))
        await app.store.append("default", parcels)
        taken: list[LeasedDelivery] = []
        while len(taken) < 1000:
            taken += await worker.fetch(1000 - len(taken), 1.0)
        for each in taken:
            each.identify()
            each.task, each.attempt, each.started_ms, each.took_us = "work", 1, 1, 1
        assert await worker.settle("default", [Settlement(each, DONE) for each in taken]) == []
    await worker.close()


async def test_what_is_redacted_stays_so_once_a_job_has_ended(
    store_url: str, namespace: str
) -> None:
    def hide(task: str, value: object) -> object:
        return {"to": "***"} if isinstance(value, dict) else "***"

    app = Headrace(store_url, namespace=namespace, redact=hide)

    @app.task(retry=Retry(2, backoff="fixed", base=0.001))
    async def send(ctx: Context, to: str) -> str:
        ctx.progress(0.5, f"writing to {to}")
        ctx.log(f"to {to}")
        if ctx.attempt == 1:
            raise ConnectionError(f"no answer from {to}")
        return to

    async with app:
        async with app.worker():
            job = await send.enqueue("ann@example.com")
            await job.result(LONG)
        shown = app.admin.redacted()
        assert "ann@example.com" not in repr(await shown.job(job.id))
        page = await shown.jobs(state="done")
        assert [each.id for each in page.jobs] == [job.id]
        assert "ann@example.com" not in repr(page)
        assert (await shown.jobs(state="done", search="ann@example")).jobs == []
