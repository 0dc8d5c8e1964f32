"""What can go wrong with a batch goes wrong for the jobs concerned, and for no others."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headrace import (
    BatchError,
    Context,
    Defer,
    Headrace,
    Job,
    JobCancelled,
    JobFailed,
    Reject,
    Retry,
    RetryLater,
    State,
)
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history import History, encode_history
from headrace.worker.run.ack_policy import AckPolicy
from headrace.worker.run.admitter import Admitter
from headrace.worker.run.executor import Executor
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.run.runners import Runners
from headrace.worker.run.slots import Slots
from tests.worker.states import AtOnce, reach, until

ONCE = Retry(1)


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


async def reasons(*jobs: Job[Any]) -> list[str]:
    """Of each job the reason of its death, or that it is done."""
    found = []
    for job in jobs:
        try:
            await job.result(30)
            found.append("done")
        except JobFailed as failed:
            found.append(failed.reason)
    return found


async def test_an_error_fails_all_of_a_batch(app: Headrace) -> None:
    @app.task(batch=3, max_wait=60, retry=ONCE)
    async def broken(numbers: list[int]) -> None:
        raise ValueError("no")

    async with app, app.worker():
        jobs = await app.enqueue_many(broken.call(number) for number in range(3))
        assert await reasons(*jobs) == ["retries_exhausted"] * 3


async def test_what_is_not_a_list_of_the_same_length_fails_all(app: Headrace) -> None:
    @app.task(batch=2, max_wait=60)
    async def short(numbers: list[int]) -> list[int]:
        return numbers[1:]

    @app.task(batch=2, max_wait=60)
    def other(numbers: list[int]) -> Any:
        return len(numbers)

    async with app, app.worker():
        for task, told in ((short, "a list of 1 for 2 jobs"), (other, "an? int")):
            jobs = await app.enqueue_many(task.call(number) for number in range(2))
            for job in jobs:
                with pytest.raises(JobFailed, match=told) as failed:
                    await job.result(30)
                assert failed.value.reason == "bad_result"


@pytest.mark.parametrize("named", [{7: ValueError()}, {-1: ValueError()}, {0: "text"}, {"0": None}])
async def test_a_batch_error_that_names_nobody_fails_all(app: Headrace, named: Any) -> None:
    @app.task(batch=2, max_wait=60)
    async def lost(numbers: list[int]) -> None:
        raise BatchError(named)

    async with app, app.worker():
        jobs = await app.enqueue_many(lost.call(number) for number in range(2))
        assert await reasons(*jobs) == ["bad_result"] * 2


async def test_task_control_is_applied_job_by_job(app: Headrace) -> None:
    seen: list[list[str]] = []

    @app.task(batch=4, max_wait=0.05, retry=Retry(2, base=100))
    async def mixed(ctx: Context, words: list[str]) -> list[Any]:
        seen.append(words)
        if len(seen) > 1:
            return list(words)
        answers = {"reject": Reject("no"), "later": RetryLater(0.01), "defer": Defer(0.01)}
        return [answers.get(word, word) for word in words]

    async with app, app.worker():
        jobs = await app.enqueue_many(
            mixed.call(word) for word in ("fine", "reject", "later", "defer")
        )
        assert await reasons(*jobs) == ["done", "rejected", "done", "done"]
        tries = (await jobs[2].info()).attempts
        assert [each.error_type for each in tries] == ["headrace.errors.RetryLater", ""]
    assert sorted(word for words in seen[1:] for word in words) == ["defer", "later"]


async def test_one_bad_argument_does_not_hold_up_the_batch(app: Headrace) -> None:
    @app.task(batch=2, max_wait=60, name="typed")
    async def typed(numbers: list[int]) -> None: ...

    sender = Headrace("memory://")
    sender._store = app.store

    @sender.task(name="typed")
    async def untyped(numbers: Any) -> None: ...

    async with app, app.worker():
        jobs = [await untyped.enqueue(value) for value in (1, "two", 3)]
        assert await reasons(*jobs) == ["done", "bad_arguments", "done"]


async def test_a_result_that_cannot_travel_fails_its_job_alone(app: Headrace) -> None:
    @app.task(batch=2, max_wait=60, strict_result=True)
    async def odd(numbers: list[int]) -> list[Any]:
        return [1, object()]

    async with app, app.worker():
        jobs = await app.enqueue_many(odd.call(number) for number in range(2))
        assert await reasons(*jobs) == ["done", "bad_result"]


async def test_a_batch_may_be_larger_than_the_worker(app: Headrace) -> None:
    sizes: list[int] = []

    @app.task(batch=100, max_wait=60)
    async def load(rows: list[int]) -> None:
        sizes.append(len(rows))

    async with app, app.worker(concurrency=1):
        jobs = await app.enqueue_many(load.call(number) for number in range(200))
        for job in jobs:
            await job.result(30)
    assert sizes == [100, 100]


async def test_what_was_read_for_a_batch_and_is_not_waits_for_a_slot(app: Headrace) -> None:
    runs = AtOnce()

    @app.task(batch=50, max_wait=0.05)
    async def load(rows: list[int]) -> None: ...

    @app.task
    async def alone(number: int) -> None:
        with runs:
            await asyncio.sleep(0.001)

    calls = [load.call(number) for number in range(45)]
    async with app:
        jobs: list[Job[None]] = await app.enqueue_many([*calls, *map(alone.call, range(40))])
        async with app.worker(concurrency=2):
            for job in jobs:
                await job.result(30)
    assert runs.most <= 2


async def test_a_running_batch_takes_one_slot(app: Headrace) -> None:
    running, gate = 0, asyncio.Event()

    @app.task(batch=2, max_wait=60)
    async def hold(numbers: list[int]) -> None:
        nonlocal running
        running += 1
        await gate.wait()

    async with app, app.worker(concurrency=3):
        jobs = await app.enqueue_many(hold.call(number) for number in range(10))
        await until(lambda: running == 3)
        await reach(jobs[:6], State.RUNNING)
        # Three batches, and what gathers for the next one.
        assert (await app.store.count("default")).running < 8
        gate.set()
        for job in jobs:
            await job.result(30)
    assert running == 5


async def test_what_has_gathered_is_handed_back_at_once(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task(batch=10, max_wait=60)
    async def load(rows: list[int]) -> None:
        begun.set()

    async with app:
        jobs = await app.enqueue_many(load.call(number) for number in range(3))
        async with app.worker():
            await reach(jobs, State.RUNNING)
        assert not begun.is_set()
        assert {await job.status() for job in jobs} == {State.WAITING}


async def test_the_timeout_is_for_the_whole_batch(app: Headrace) -> None:
    @app.task(batch=2, max_wait=60, timeout=0.05, retry=ONCE)
    async def slow(rows: list[int]) -> None:
        await asyncio.sleep(60)

    async with app, app.worker():
        jobs = await app.enqueue_many(slow.call(number) for number in range(2))
        for job in jobs:
            with pytest.raises(JobFailed, match=r"timeout of 0\.05 s"):
                await job.result(30)


async def test_a_batch_in_a_thread_that_takes_too_long_is_given_up(app: Headrace) -> None:
    release = threading.Event()

    @app.task(batch=2, max_wait=60, timeout=0.05, retry=ONCE)
    def stuck(rows: list[int]) -> None:
        release.wait(60)

    async with app, app.worker():
        jobs = await app.enqueue_many(stuck.call(number) for number in range(2))
        assert await reasons(*jobs) == ["retries_exhausted"] * 2
        release.set()


async def test_a_batch_that_is_cut_short_goes_back(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task(batch=2, max_wait=60)
    async def long(rows: list[int]) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app:
        jobs = await app.enqueue_many(long.call(number) for number in range(2))
        worker = app.worker(drain=0.0)
        async with worker:
            await begun.wait()
        assert {await job.status() for job in jobs} == {State.WAITING}
        assert [(await job.info()).attempt for job in jobs] == [1, 1]


async def test_one_job_of_a_running_batch_is_cancelled(app: Headrace) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @app.task(batch=2, max_wait=60)
    async def hold(numbers: list[int]) -> list[int]:
        begun.set()
        await gate.wait()
        return numbers

    async with app, app.worker():
        one, other = await app.enqueue_many(hold.call(number) for number in range(2))
        await begun.wait()
        await one.cancel()
        with pytest.raises(JobCancelled):
            await one.result(30)
        gate.set()
        assert await other.result(30) == 1


async def test_a_batch_of_which_all_jobs_are_cancelled_ends(app: Headrace) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.task(batch=2, max_wait=60)
    async def hold(numbers: list[int]) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with app, app.worker():
        jobs = await app.enqueue_many(hold.call(number) for number in range(2))
        await begun.wait()
        for job in jobs:
            await job.cancel()
        await asyncio.wait_for(ended.wait(), 30)


async def test_a_job_that_waits_in_a_batch_is_cancelled_at_once(app: Headrace) -> None:
    seen: list[int] = []

    @app.task(batch=3, max_wait=60)
    async def load(rows: list[int]) -> None:
        seen.extend(rows)

    async with app, app.worker():
        first, second = await app.enqueue_many(load.call(number) for number in range(2))
        await reach([first, second], State.RUNNING)
        await first.cancel()
        with pytest.raises(JobCancelled):
            await first.result(30)
        more = await app.enqueue_many(load.call(number) for number in (2, 3))
        for job in (second, *more):
            await job.result(30)
    assert sorted(seen) == [1, 2, 3]


async def test_a_job_on_its_last_chance_takes_no_others_along(app: Headrace) -> None:
    batches: list[list[int]] = []
    settled: list[LeasedDelivery] = []

    @app.task(batch=2, max_wait=60)
    async def load(rows: list[int]) -> None:
        batches.append(rows)

    class Noted(AckPolicy):
        def decided(self, run: Run) -> None:
            settled.append(run.delivery)

    executor = Executor(
        app.tasks,
        Runners(threads=1, processes=1),
        Admitter(app.store.consumer("worker", ["default"], 30)),
        Slots(10),
        RunSettings("worker", None, crash_limit=3, max_payload=1000, now_ms=lambda: 0),
        Noted(),
    )
    suspicious = encode_history(History((), deliveries=2, crashes=2))
    for number, history in enumerate([b"", suspicious, b""]):
        envelope = load.call(number).parcel().envelope
        executor.start(LeasedDelivery("default", number, envelope, history))
    await until(lambda: len(settled) == 3)
    assert batches == [[1], [0, 2]]
