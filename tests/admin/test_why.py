"""`app.admin.why()`: a sentence for every reason."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from headrace import Context, Defer, Headrace, Reject, ResultLost, RetryLater, State, chain, group
from headrace.admin.jobs.why import Why
from headrace.core.job.history import Attempt, History
from tests.admin.burying import bury, envelope, one_attempt


def _refusal(number: int) -> Attempt:
    """Of a worker that did not start the job."""
    return Attempt(number, 1_000_000, 1_000_000, "worker-1", "", "too late", "")


async def test_a_job_whose_time_has_not_come(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.options(delay=86_400 * 2.5).enqueue()
    sentence = await app.admin.why(job.id)
    assert sentence.startswith("It is scheduled, due in 2 d ")


async def test_a_job_that_is_to_run_again(app: Headrace) -> None:
    @app.task
    async def work() -> None:
        raise RetryLater(60)

    async with app.worker():
        job = await work.enqueue()
        async for event in app.admin.events("default", follow=True):
            if event.kind == "retry":
                break
    why = await app.admin.why(job.id)
    assert why.startswith("It is scheduled, due in ")
    assert "to run again after headrace.errors.RetryLater: the task asked" in why


async def test_a_job_that_is_put_off_again_and_again(app: Headrace) -> None:
    @app.task
    async def work() -> None:
        runs.append(1)
        raise Defer(0 if len(runs) < 3 else 60)

    runs: list[int] = []
    async with app.worker():
        job = await work.enqueue()
        while await job.status() is not State.SCHEDULED or len(runs) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    why = await app.admin.why(job.id)
    assert why.startswith("It is scheduled, due in ")
    assert why.endswith("; it has been put off 3 times.")


async def test_a_job_that_is_due_and_that_nobody_promotes(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.options(delay=0.01).enqueue()
    # Nobody tells when a time has come, if no worker runs.
    while "due in" in (why := await app.admin.why(job.id)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert why.endswith(": no worker is running that reads queue 'default'.")


async def test_a_job_in_a_queue_that_nobody_reads(app: Headrace) -> None:
    @app.task(queue="mail")
    async def work() -> None: ...

    job = await work.enqueue()
    why = await app.admin.why(job.id)
    assert why == "It is waiting: no worker is running that reads queue 'mail'."


async def test_a_job_in_a_paused_queue(app: Headrace) -> None:
    @app.task(queue="mail")
    async def work() -> None: ...

    await app.admin.pause("mail")
    job = await work.enqueue()
    assert await app.admin.why(job.id) == "It is waiting: queue 'mail' is paused."


async def test_a_job_of_a_paused_task(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await app.admin.pause("default", "work")
    job = await work.enqueue()
    assert "task 'work' is paused in queue 'default'" in await app.admin.why(job.id)
    async with app.worker():
        async for event in app.admin.events("default", follow=True):
            if event.kind == "held":
                break
        assert await app.admin.why(job.id) == (
            "It is blocked: task 'work' is paused in queue 'default'."
        )


async def test_a_job_waits_behind_those_that_run_where_it_does(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def block() -> None: ...

    @app.task
    async def wait() -> None: ...

    async def a_worker_reads_it(why: Why) -> str:
        return ""

    monkeypatch.setattr(Why, "_obstacle", a_worker_reads_it)
    blocking = [await block.enqueue() for _ in range(3)]
    waiting = [await wait.enqueue() for _ in range(2)]
    first = "It is waiting, first in queue 'default': the next "
    assert await app.admin.why(blocking[0].id) == f"{first}worker with a free thread takes it."
    assert "behind 2 jobs." in await app.admin.why(blocking[2].id)
    assert await app.admin.why(waiting[0].id) == f"{first}free worker takes it."
    assert "behind 1 job." in await app.admin.why(waiting[1].id)


async def test_a_running_job_with_progress_that_was_asked_to_end(app: Headrace) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn(ctx: Context) -> None:
        ctx.progress(0.4)
        started.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()

    async with app.worker():
        job = await stubborn.enqueue()
        await started.wait()
        async for update in job.watch(poll=0.05):
            if update.progress:
                break
        await app.admin.cancel(job.id)
        why = await app.admin.why(job.id)
        assert re.search(r"attempt 1,( since .*,)? 40% done, and was asked to end\.", why)
        release.set()


async def test_a_job_behind_others_of_its_key_and_of_its_task(app: Headrace) -> None:
    @app.task(concurrency=2, key_concurrency=1)
    async def work() -> None: ...

    jobs = [await work.options(key=key).enqueue() for key in ("a", "a", "b", "c")]
    assert [await app.admin.why(job.id) for job in (jobs[1], jobs[3])] == [
        "It is blocked: jobs of its key 'a' run one at a time, and others are before it.",
        "It is blocked: jobs of task 'work' run 2 at a time, and others are before it.",
    ]
    assert ((await app.admin.job(jobs[3].id)).task_width) == 2


async def test_a_job_of_a_queue_that_runs_as_many_as_it_may(app: Headrace) -> None:
    app.queue("mail", concurrency=1)
    running, go_on = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def work() -> None:
        running.set()
        await go_on.wait()

    first, second = await work.enqueue(), await work.enqueue()
    async with app.worker():
        await asyncio.wait_for(running.wait(), 10)
        why = "It is waiting: queue 'mail' runs 1 job at a time."
        assert await app.admin.why(second.id) == why
        queue = await app.admin.queue("mail")
        assert (queue.running, queue.waiting, queue.concurrency) == (1, 1, 1)
        assert [each.concurrency for each in await app.admin.queues() if each.name == "mail"] == [1]
        go_on.set()
        await first.result(timeout=10)
        await second.result(timeout=10)


async def test_a_job_behind_its_key(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    @app.task(concurrency=2)
    async def narrow() -> None: ...

    await work.options(key="ann").enqueue()
    job = await work.options(key="ann").enqueue()
    assert await app.admin.why(job.id) == (
        "It is blocked: jobs of its key 'ann' run one at a time, and others are before it."
    )
    jobs = [await narrow.enqueue() for _ in range(3)]
    assert "jobs of task 'narrow' run 2 at a time" in await app.admin.why(jobs[2].id)


async def test_a_job_over_its_rate(app: Headrace) -> None:
    @app.task(rate="1/h")
    async def work() -> None: ...

    async with app.worker():
        first, second = await work.enqueue(), await work.enqueue()
        await first.result(timeout=10)
        async for update in second.watch(poll=0.02):
            if update.state is State.BLOCKED:
                break
        why = await app.admin.why(second.id)
    assert why.startswith("It is blocked: task 'work' is over its rate of 1 starts in 1 h.")


async def test_a_job_that_waits_for_others(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await app.enqueue(chain(work.call(), work.call()))
    assert await app.admin.why(job.id) == (
        f"It is blocked: it ends its flow, and waits for job {job.jobs[0].id} of task 'work' "
        "(waiting) to end."
    )


async def test_a_job_that_waits_for_many_names_a_few_of_them(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    flow = await app.enqueue(chain(group(work.call() for _ in range(5)), work.call(), work.call()))
    middle = flow.jobs[-2]
    why = await app.admin.why(middle.id)
    assert why.startswith(f"It is blocked: it belongs to the flow of {flow.id}, and waits for job ")
    assert why.endswith(" of task 'work' (waiting) and 2 other jobs to end.")
    assert [job.id in why for job in flow.jobs[:5]].count(True) == 3
    await flow.jobs[0].cancel()
    assert flow.jobs[0].id not in await app.admin.why(middle.id)


async def test_a_job_whose_result_is_lost(app: Headrace) -> None:
    @app.task
    async def train() -> object:
        return {"model": object}

    async with app.worker():
        job = await train.enqueue()
        with pytest.raises(ResultLost) as lost:
            await job.result(timeout=60)
    why = await app.admin.why(job.id)
    assert why.startswith("It has been done since 20")
    assert why.endswith(f", but its result is lost: {lost.value.problem}.")


async def test_jobs_that_have_ended(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    @app.task
    async def fail() -> None:
        raise Reject("not like this")

    cancelled = await work.options(delay=60).enqueue()
    await app.admin.cancel(cancelled.id)
    async with app.worker():
        done, dead = await work.enqueue(), await fail.enqueue()
        await done.result(timeout=10)
        async for _ in dead.watch(poll=0.05):
            pass
    moment = r"20[\d-]+ [\d:]+ UTC\."
    assert re.fullmatch(f"It has been done since {moment}", await app.admin.why(done.id))
    assert re.fullmatch(f"It was cancelled at {moment}", await app.admin.why(cancelled.id))
    why = await app.admin.why(dead.id)
    assert why.startswith("It is dead (rejected) since 20")
    assert why.endswith(", after 1 attempt: rejected: not like this.")


async def test_a_dead_job_whose_task_raised_nothing(app: Headrace) -> None:
    @app.task(strict_result=True)
    async def unfit() -> object:
        return object()

    async with app.worker():
        job = await unfit.enqueue()
        async for _ in job.watch(poll=0.05):
            pass
    why = await app.admin.why(job.id)
    assert ", after 1 attempt: task 'unfit' returned an object that cannot travel" in why
    (attempt,) = (await job.info()).attempts
    assert (attempt.error_type, attempt.error) == ("", attempt.error_text)


async def test_a_job_that_expired_before_it_was_started(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.options(expires=0.001).enqueue()
    expires = (await app.admin.job(job.id)).expires
    store = (await app.session()).store
    # Nobody tells when a time has come, if no worker runs.
    while expires and await store.time_ms() <= expires.timestamp() * 1000:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with app.worker():
        async for _ in job.watch(poll=0.05):
            pass
    why = await app.admin.why(job.id)
    assert why.startswith("It is dead (expired) since 20")
    assert why.endswith(", never started: the job expired before it could be started.")


@pytest.mark.parametrize(
    ("history", "tries"),
    [
        (History((_refusal(1),), 1), ", never started: too late."),
        # It was deferred, or its worker died: nobody knows whether it had been started.
        (History((_refusal(1),), 2), " UTC: too late."),
        (History((*one_attempt().attempts, _refusal(2)), 2), ", after 1 attempt: too late."),
        (one_attempt(), ", after 1 attempt: ValueError: no such user."),
        (
            msgspec.structs.replace(one_attempt(), replayed_ms=1),
            ", after 1 attempt since its replay: ValueError: no such user.",
        ),
    ],
)
async def test_what_was_never_started_is_no_attempt(
    app: Headrace, history: History, tries: str
) -> None:
    (id,) = await bury(app, [envelope()], reason="expired", history=history)
    assert (await app.admin.why(id)).endswith(tries)


async def test_a_dead_job_without_an_attempt(app: Headrace) -> None:
    (id,) = await bury(app, [envelope()], reason="expired", history=History())
    assert await app.admin.why(id) == "It is dead (expired)."


async def test_a_job_that_gathers_with_others(app: Headrace) -> None:
    @app.task(batch=5, batch_key="items", max_wait=3600)
    async def digest(items: list[str]) -> None: ...

    @app.task(batch=5, grace=0.001, max_wait=3600)
    async def hurry(items: list[str]) -> None: ...

    nobody = "; and no worker is running that reads queue 'default'."
    first = await digest.enqueue("ann")
    why = await app.admin.why(first.id)
    assert "it gathers with no others of key 'ann', until there are 5 or until " in why
    await app.enqueue_many([digest.call("ann"), digest.call("bob"), digest.call("ann")])
    why = await app.admin.why(first.id)
    assert why.startswith("It is blocked: it gathers with 2 others of key 'ann', until there are 5")
    assert why.endswith(nobody)
    due = await hurry.enqueue("x")
    while "or until" in (why := await app.admin.why(due.id)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    gathered = "it has gathered with no others of task 'hurry', and goes when a worker looks"
    assert why == f"It is blocked: {gathered}{nobody}"
