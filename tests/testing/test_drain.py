"""`drain`: runs what is due, here, until nothing is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    ConfigError,
    Context,
    Defer,
    Headrace,
    Job,
    JobFailed,
    Reject,
    ResultTimeout,
    Retry,
    RetryLater,
    StoreUnavailable,
    chain,
    group,
)
from headrace.testing.drain import waiting
from headrace.worker.threads.thread_pool import ThreadPool


@dataclass
class Paid:
    order: str


numbers: list[int] = []


def crunch(ctx: Context, n: int) -> None:
    """Runs in a process of its own, but for here."""
    numbers.append(n + (ctx.state or 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "real.db"


@pytest.fixture
def app(path: Path) -> Headrace:
    return Headrace(f"sqlite:///{path}")


async def test_all_that_is_due_runs_here_in_order(app: Headrace, path: Path) -> None:
    seen: list[object] = []

    @app.task
    async def first(n: int) -> int:
        seen.append(("first", n, threading.current_thread() is threading.main_thread()))
        await second.enqueue(n + 1)
        return n

    @app.task(queue="elsewhere")
    def second(n: int) -> None:
        seen.append(("second", n))

    third = app.task(run_in="process")(crunch)
    numbers.clear()
    async with app.testing() as headrace:
        job = await first.enqueue(1)
        await third.options(queue="nobody-reads-it").enqueue(3)
        await first.options(delay=60).enqueue(7)
        assert seen == []
        assert await headrace.drain() == 3
        assert seen == [("first", 1, True), ("second", 2)]
        assert numbers == [3]
        assert await job.result(1) == 1
        assert await headrace.drain() == 0
        headrace.clock.advance(59)
        assert await headrace.drain() == 0
        headrace.clock.advance(1)
        assert await headrace.drain() == 2
        assert seen[2:] == [("first", 7, True), ("second", 8)]
    assert not path.exists()  # noqa: ASYNC240


async def test_the_errors_of_jobs_are_raised_as_they_were(app: Headrace) -> None:
    error = ValueError("no stock")

    @app.task(retry=Retry(2))
    async def reserve() -> None:
        raise error

    @app.task(retry=Retry(1))
    def other() -> None:
        raise KeyError("other")

    with app.testing() as headrace:
        await reserve.enqueue()
        with pytest.raises(ValueError, match="no stock") as raised:
            await headrace.drain()
        assert raised.value is error
        assert [entry.name for entry in raised.traceback][-1] == "reserve"
        assert "of task 'reserve', attempt 1: it runs again in" in error.__notes__[-1]
        # It is not due yet: an error is raised once.
        assert await headrace.drain() == 0
        await other.enqueue()
        headrace.clock.advance(60)
        with pytest.raises(ExceptionGroup, match="2 jobs failed") as both:
            await headrace.drain()
        assert {type(each) for each in both.value.exceptions} == {ValueError, KeyError}
        assert "it is dead (retries_exhausted)" in error.__notes__[-1]
        await other.enqueue()
        assert await headrace.drain(raise_errors=False) == 1


async def test_what_a_job_asks_for_is_no_error(app: Headrace) -> None:
    seen: list[str] = []

    @app.task(retry=Retry(3))
    async def later(ctx: Context, how: str) -> str:
        seen.append(f"{how} {ctx.attempt}")
        if ctx.attempt == 1 and how == "retry":
            raise RetryLater(60)
        if len(seen) == 2 and how == "defer":
            raise Defer(60)
        if how == "reject":
            raise Reject("never")
        return how

    with app.testing() as headrace:
        await later.enqueue("retry")
        await later.enqueue("defer")
        assert await headrace.drain() == 2
        headrace.clock.advance(60)
        assert await headrace.drain() == 2
        await later.enqueue("reject")
        with pytest.raises(Reject, match="never"):
            await headrace.drain()
    assert seen == ["retry 1", "defer 1", "retry 2", "defer 1", "reject 1"]


async def test_a_job_that_succeeds_after_all_raises_nothing(app: Headrace) -> None:
    @app.task(retry=Retry(3, backoff=[0, 0]), result_ttl=0)
    async def flaky(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")

    with app.testing() as headrace:
        await flaky.enqueue()
        assert await headrace.drain() == 3


async def test_what_cannot_travel_fails_in_the_test(app: Headrace) -> None:
    @app.task(retry=Retry(1), strict_result=True)
    async def bad_result() -> Any:
        return object()

    @app.task
    async def typed(n: int) -> list[tuple[int, datetime]]:
        return [(n, datetime(2026, 1, 1, tzinfo=UTC))]

    with app.testing() as headrace:
        await bad_result.enqueue()
        with pytest.raises(Exception, match="result"):
            await headrace.drain()
        job = await typed.enqueue(1)
        await headrace.drain()
        assert await job.result(1) == [(1, datetime(2026, 1, 1, tzinfo=UTC))]
        await app.store.append("default", [])
        unknown = Headrace(app.url, clock=headrace.clock)

        @unknown.task
        async def gone() -> None: ...

        await app.outgoing.send(gone.call())
        with pytest.raises(Exception, match="gone"):
            await headrace.drain()


async def test_flows_batches_handlers_and_limits(app: Headrace) -> None:
    seen: list[object] = []

    async def done(job: Job[int], result: int) -> None:
        seen.append(("done", result))

    async def died(job: Job[int], failure: JobFailed) -> None:
        seen.append(("died", failure.error_type))

    @app.task(on_success=done, on_dead=died, retry=Retry(1), queue="sums")
    async def add(a: int, b: int) -> int:
        if a < 0:
            raise ValueError(a)
        return a + b

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(batch=10)
    async def load(items: list[int]) -> None:
        seen.append(items)

    @app.task(rate="1/m")
    async def rare() -> None:
        seen.append("rare")

    with app.testing() as headrace:
        flow = await app.enqueue(group([add.call(1, 2), add.call(3, 4)]).then(total.call()))
        after = await app.enqueue(chain(add.call(1, 1), add.call(2)))
        await headrace.drain()
        assert (await flow.result(1), await after.result(1)) == (10, 4)
        assert sorted(seen, key=str) == [("done", 2), ("done", 3), ("done", 4), ("done", 7)]
        seen.clear()
        await app.enqueue_many([load.call(n) for n in range(12)])
        await add.enqueue(-1, 0)
        with pytest.raises(ValueError, match="-1"):
            await headrace.drain()
        assert seen == [list(range(10)), [10, 11], ("died", "ValueError")]
        await app.enqueue_many([rare.call(), rare.call()])
        assert await headrace.drain() == 1
        # The window of a rate is a moment longer than it says.
        headrace.clock.advance(1, minutes=1)
        assert await headrace.drain() == 1


async def test_events_reach_subscriptions_and_broadcasts(app: Headrace) -> None:
    seen: list[object] = []
    orders = app.topic("orders", Paid)

    @orders.subscribe("billing", retry=Retry(2))
    async def bill(event: Paid, ctx: Context) -> None:
        seen.append(("bill", event.order, ctx.attempt))
        if event.order == "bad":
            raise ValueError("bad order")

    @orders.on_dead("billing")
    async def dead(event: Paid) -> None:
        seen.append(("dead", event.order))

    @orders.broadcast
    def drop_cache(event: Paid) -> None:
        seen.append(("drop", event.order))

    with app.testing() as headrace:
        await orders.publish(Paid("o-1"))
        await orders.publish(Paid("o-2"), delay=60)
        assert await headrace.drain() == 2
        assert seen == [("bill", "o-1", 1), ("drop", "o-1")]
        headrace.clock.advance(60)
        assert await headrace.drain(only="orders/billing") == 1
        assert await headrace.drain() == 1
        assert seen[2:] == [("bill", "o-2", 1), ("drop", "o-2")]
        seen.clear()
        await orders.publish(Paid("bad"))
        with pytest.raises(ValueError, match="bad order"):
            await headrace.drain()
        headrace.clock.advance(60)
        with pytest.raises(ValueError, match="bad order"):
            await headrace.drain()
        assert seen == [("bill", "bad", 1), ("drop", "bad"), ("bill", "bad", 2), ("dead", "bad")]


async def test_only_some_and_one_at_a_time(app: Headrace) -> None:
    seen: list[str] = []

    @app.task
    async def mail(to: str) -> None:
        seen.append(f"mail {to}")

    @app.task
    async def report(to: str) -> None:
        seen.append(f"report {to}")

    with app.testing() as headrace:
        for to in ("ada", "bob"):
            await report.enqueue(to)
            await mail.enqueue(to)
        assert await headrace.drain(only=mail) == 2
        assert await headrace.run_one() is True
        assert seen == ["mail ada", "mail bob", "report ada"]
        assert await headrace.run_one(only=[mail, "mail"]) is False
        assert await headrace.run_one() is True
        assert await headrace.run_one() is False
        with pytest.raises(ConfigError, match=r"no task 'x'; it has mail, report"):
            await headrace.drain(only="x")


async def test_jobs_without_end_end_with_an_error(app: Headrace) -> None:
    @app.task
    async def again() -> None:
        await again.enqueue()

    with app.testing() as headrace:
        await again.enqueue()
        with pytest.raises(AssertionError, match=r"has run 50 jobs.*of 'again'"):
            await headrace.drain(steps=50)
        with pytest.raises(ConfigError, match="steps"):
            await headrace.drain(steps=0)


async def test_a_job_may_wait_for_another(app: Headrace) -> None:
    @app.task
    async def parent(n: int) -> int:
        value: int = await (await child.enqueue(n)).result(30)
        return value

    @app.task
    def child(n: int) -> int:
        below: int = child.enqueue_sync(n - 1).result_sync(30) + 1 if n else 0
        return below

    with app.testing() as headrace:
        job = await parent.enqueue(2)
        assert await headrace.drain() == 4
        assert await job.result(1) == 2


async def test_a_wait_for_what_nothing_runs_ends(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_TURN", 0.001)

    @app.task
    async def work() -> int:
        return 1

    with app.testing() as headrace:
        job = await work.enqueue()
        with pytest.raises(ConfigError, match=r"nothing runs jobs in a test: call headrace.drain"):
            await job.result()
        with pytest.raises(ConfigError, match=r"nothing runs jobs in a test"):
            await asyncio.to_thread(job.result_sync)
        with pytest.raises(ResultTimeout):
            await job.result(0.05)
        monkeypatch.setattr(waiting, "_TURNS", 1_000_000)
        result = asyncio.create_task(job.result())
        await asyncio.sleep(0.05)
        assert not result.done()
        assert await headrace.drain() == 1
        assert await result == 1
        later = await work.options(delay=60).enqueue()
        async with app.worker():
            result = asyncio.create_task(later.result())
            await asyncio.sleep(0.05)
            headrace.clock.advance(60)
            assert await result == 1


async def test_a_drain_that_is_not_awaited_fails_the_test(app: Headrace) -> None:
    kit = app.testing()
    kit.__enter__()
    _ = kit.drain(), kit.run_one()
    with pytest.raises(
        AssertionError, match=r"drain\(\) was not awaited.*await headrace.drain\(\)"
    ):
        kit.__exit__(None, None, None)


def test_plain_functions_run_in_the_thread_of_a_test_without_a_loop(app: Headrace) -> None:
    threads: list[threading.Thread] = []

    @app.task
    def plain() -> int:
        threads.append(threading.current_thread())
        return 1

    @app.task
    async def on_a_loop() -> None:
        threads.append(threading.current_thread())

    with app.testing() as headrace:
        job = plain.enqueue_sync()
        on_a_loop.enqueue_sync()
        assert headrace.drain_sync() == 2
        assert job.result_sync(1) == 1
        assert threads[0] is threading.current_thread()
        assert threads[1] is not threading.current_thread()
        plain.enqueue_sync()
        assert headrace.run_one_sync()
        assert not headrace.run_one_sync()

    async def inside() -> None:
        headrace.drain_sync()

    with app.testing() as headrace, pytest.raises(ConfigError, match="await the async ones"):
        asyncio.run(inside())


async def test_a_thread_that_starts_late_has_its_job_run_once(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that is very busy. There is nobody else to whom the job could go back."""
    serve = ThreadPool._serve

    def serve_late(pool: ThreadPool, seat: int) -> None:
        time.sleep(0.4)
        serve(pool, seat)

    monkeypatch.setattr(ThreadPool, "_serve", serve_late)
    ran: list[str] = []

    @app.task
    def send_mail(to: str) -> None:
        ran.append(to)

    with app.testing() as headrace:
        await send_mail.enqueue("ada")
        assert await headrace.drain() == 1
    assert ran == ["ada"]


async def test_inline_runs_a_job_before_enqueue_returns(app: Headrace) -> None:
    seen: list[object] = []
    orders = app.topic("orders", Paid)

    @app.task(retry=Retry(1))
    async def first(n: int) -> None:
        await second.enqueue(n)
        seen.append(("first", n))

    @app.task(retry=Retry(1))
    def second(n: int) -> int:
        seen.append(("second", n))
        if n > 1:
            raise ValueError(n)
        return n

    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        seen.append(event.order)

    with app.testing(inline=True):
        await first.enqueue(1)
        assert seen == [("second", 1), ("first", 1)]
        await app.enqueue_many([second.call(0), second.call(1)])
        await app.enqueue(chain(second.call(0), second.call()))
        await orders.publish(Paid("o-1"))
        assert seen[2:] == [("second", n) for n in (0, 1, 0, 0)] + ["o-1"]
        # That of a job's job is raised by the first send, not within the job.
        with pytest.raises(ValueError, match="2"):
            await first.enqueue(2)
        assert seen[-2:] == [("second", 2), ("first", 2)]
    with app.testing(inline=True, raise_errors=False):
        job = await second.enqueue(2)
        with pytest.raises(JobFailed):
            await job.result(1)
    with app.testing():
        await second.enqueue(3)
    assert ("second", 3) not in seen


@pytest.mark.parametrize("raise_errors", [True, False])
async def test_jobs_that_send_themselves_inline_are_found_out(
    app: Headrace, raise_errors: bool
) -> None:
    @app.task(name="down")
    async def down(n: int) -> None:
        if n:
            await down.enqueue(n - 1)

    @app.task(name="again")
    async def again() -> None:
        await down.enqueue(1)
        await again.enqueue()
        await again.enqueue()

    @app.task(name="again_in_thread")
    def again_in_thread() -> None:
        again_in_thread.enqueue_sync()

    with app.testing(inline=True, raise_errors=raise_errors) as headrace:
        await down.enqueue(30)
        with pytest.raises(AssertionError, match=r"50 deep, .*'again', 'down': does a job send"):
            await again.enqueue()
        with pytest.raises(AssertionError, match="latest of 'again_in_thread': does a job"):
            await asyncio.to_thread(again_in_thread.enqueue_sync)
        assert len(headrace.sent(again)) <= 50
        # It is over with the test's own send.
        await down.enqueue(1)
        await asyncio.gather(*(down.enqueue(0) for _ in range(100)))


async def test_a_kit_that_raises_no_errors_drains_without_them(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    def fails() -> None:
        raise ValueError("as it should")

    with app.testing(raise_errors=False) as headrace:
        await app.enqueue_many([fails.call()] * 5)
        assert await headrace.run_one()
        assert await asyncio.to_thread(headrace.run_one_sync)
        with pytest.raises(ValueError, match="as it should"):
            await headrace.run_one(raise_errors=True)
        assert await asyncio.to_thread(headrace.drain_sync) == 2
        await fails.enqueue()
        assert await headrace.drain() == 1


async def test_the_lifespan_of_the_app_is_there(app: Headrace) -> None:
    life: list[str] = []

    @app.lifespan
    async def lifespan() -> AsyncIterator[str]:
        life.append("begins")
        yield "state"
        life.append("ends")

    @app.task
    async def uses(ctx: Context) -> None:
        life.append(ctx.state)

    with app.testing() as headrace:
        await uses.enqueue()
        await headrace.drain()
    assert life == ["begins", "state", "ends"]


async def test_the_lifespan_of_a_process_is_there(app: Headrace) -> None:
    numbers.clear()
    third = app.task(run_in="process")(crunch)

    @app.process_lifespan
    def set_up() -> Iterator[int]:
        yield 40
        numbers.append(0)

    with app.testing() as headrace:
        await third.enqueue(1)
        await third.enqueue(2)
        assert await headrace.drain() == 2
    assert numbers == [41, 42, 0]


async def test_faults_strike_a_drain_too(app: Headrace) -> None:
    fences: list[int] = []

    @app.task
    async def work(ctx: Context) -> None:
        fences.append(ctx.fence)
        if len(fences) == 1:
            await asyncio.sleep(30)

    with app.testing() as headrace:
        await work.enqueue()
        headrace.lose_lease(work)
        assert await headrace.drain() == 2
        await work.enqueue()
        headrace.fail("settle")
        headrace.fail("fetch")
        assert await headrace.drain() == 1
        await work.enqueue()
        with headrace.down(), pytest.raises(StoreUnavailable, match="down"):
            await headrace.drain()
        assert await headrace.drain() == 1
    assert fences == [1, 2, 1, 1]


async def test_leases_end_when_the_clock_is_moved(app: Headrace) -> None:
    @app.task
    async def work(ctx: Context) -> int:
        return ctx.fence

    with app.testing() as headrace:
        job = await work.enqueue()
        gone = app.store.consumer("gone", ["default"], app.lease)
        assert len(await gone.fetch(1, 0)) == 1
        assert await headrace.drain() == 0
        headrace.clock.advance(app.lease + 1)
        assert await headrace.drain() == 1
        assert await job.result(1) == 2
        headrace.clock.advance(minutes=11)
        with pytest.raises(Exception, match="result_ttl has passed"):
            await job.result(1)


async def test_a_kit_is_used_within_its_block(app: Headrace) -> None:
    kit = app.testing()
    with pytest.raises(ConfigError, match="is not in use"):
        await kit.drain()
    with kit:
        assert await kit.drain() == 0
        with pytest.raises(ConfigError, match="in use"):
            kit.__enter__()
    with pytest.raises(ConfigError, match="is not in use"):
        kit.__exit__(None, None, None)
