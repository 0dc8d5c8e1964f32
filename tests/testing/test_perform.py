"""`perform` runs a function with the worker's own code, and says how that ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace import (
    BatchError,
    ConfigError,
    Context,
    Defer,
    Delivery,
    Headrace,
    Reject,
    Retry,
    RetryLater,
    current,
)
from headrace.errors import ArgumentError, ResultLost, ResultUnreadable
from headrace.middleware import JobRun, Middleware
from headrace.testing import perform, perform_batch, perform_sync


@dataclass
class Order:
    id: str
    cents: int


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


def crossed(left: int, right: int) -> set[int]:
    return {left, right, threading.get_ident()}


class TestHowARunEnds:
    async def test_done_with_a_result_that_has_travelled(self, app: Headrace) -> None:
        @app.task
        async def total(order: Order, vat: int = 0) -> Order:
            assert isinstance(order, Order)
            return Order(order.id, order.cents + vat)

        outcome = await perform(total, Order("o-1", 100), vat=19)
        assert (outcome.state, outcome.done, outcome.result) == ("done", True, Order("o-1", 119))
        assert outcome.error is None
        assert repr(outcome) == f"<Performed done {Order('o-1', 119)!r}>"

    async def test_retried_by_its_policy_until_the_last_attempt(self, app: Headrace) -> None:
        @app.task(retry=Retry(3, backoff=(2.0, 7.0), jitter=False))
        async def fails(reason: str) -> None:
            raise ValueError(reason)

        first, second, last = [await perform(fails, "no", attempt=n) for n in (1, 2, 3)]
        assert [first.state, second.state, last.state] == ["retried", "retried", "dead"]
        assert (first.delay, second.delay, last.delay) == (2.0, 7.0, None)
        assert last.reason == "retries_exhausted"
        assert isinstance(last.error, ValueError)
        assert repr(first) == "<Performed retried in 2 s: ValueError('no')>"
        assert repr(last) == "<Performed dead (retries_exhausted): ValueError('no')>"

    async def test_what_the_function_asks_for(self, app: Headrace) -> None:
        @app.task
        def asks(what: str) -> None:
            raise {"later": RetryLater(30), "defer": Defer(9), "reject": Reject("never")}[what]

        later, deferred, rejected = [
            await perform(asks, what) for what in ("later", "defer", "reject")
        ]
        assert (later.retried, later.delay) == (True, 30)
        assert (deferred.deferred, deferred.delay) == (True, 9)
        assert (rejected.dead, rejected.rejected, rejected.reason) == (True, True, "rejected")

    async def test_one_that_takes_too_long(self, app: Headrace) -> None:
        @app.task(timeout=0.05, on_timeout="dead")
        async def endless() -> None:
            await asyncio.Event().wait()

        outcome = await perform(endless)
        assert (outcome.state, outcome.reason) == ("dead", "timed_out")
        assert isinstance(outcome.error, TimeoutError)

    async def test_the_options_of_the_call_count(self, app: Headrace) -> None:
        @app.task(retry=Retry(9))
        async def fails() -> None:
            raise OSError

        assert (await perform(fails.options(retry=Retry(1)))).dead

    async def test_what_cannot_travel_fails(self, app: Headrace) -> None:
        @app.task
        async def gives(anything: object) -> object:
            return object()

        @app.task(strict_result=True)
        async def strict() -> object:
            return object()

        @app.task
        async def lies() -> int:
            return "text"  # type: ignore[return-value]

        with pytest.raises(ArgumentError, match="'anything' cannot travel"):
            await perform(gives, object())
        with pytest.raises(ResultLost, match="object"):
            await perform(gives, 1)
        assert (await perform(strict)).reason == "bad_result"
        with pytest.raises(ResultUnreadable):
            await perform(lies)

    async def test_a_result_that_is_not_kept_is_given_as_it_is(self, app: Headrace) -> None:
        @app.task(result_ttl=0)
        async def pair() -> tuple[int, int]:
            return 1, 2

        assert (await perform(pair)).result == (1, 2)

    async def test_a_test_that_gives_up_ends_the_run(self, app: Headrace) -> None:
        ended = []

        @app.task
        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await perform(endless)
        await asyncio.sleep(0)
        assert ended


class TestWhatIsAroundIt:
    async def test_the_context_is_filled_in_and_remembers(self, app: Headrace) -> None:
        @app.task(queue="mail")
        async def send(ctx: Context, to: str) -> tuple[int, str, str]:
            ctx.progress(0.5, "half")
            ctx.log(f"to {to}")
            async with ctx.once("charge") as charge:
                if charge.first:
                    charge.value = 7
            await ctx.flow.add(send.call("bob"))
            return ctx.attempt, ctx.headers["tenant"], current().queue

        outcome = await perform(send, "ada", attempt=4, headers={"tenant": "t-1"})
        assert outcome.result == (4, "t-1", "mail")
        assert outcome.context.reported == [(0.5, "half")]
        assert outcome.context.logged == ["to ada"]
        assert outcome.context.once_values == {"charge": 7}
        assert [call.task for call in outcome.context.flow.added] == [send.name]

    async def test_lifespan_and_middleware(self, app: Headrace) -> None:
        seen = []

        @app.lifespan
        async def life() -> AsyncIterator[str]:
            seen.append("begin")
            yield "pool"
            seen.append("end")

        class Doubling(Middleware):
            async def run(self, run: JobRun, proceed) -> object:  # type: ignore[no-untyped-def]
                run.args = (run.args[0] * 2,)
                run.when_settled(lambda ending: seen.append(ending.outcome))
                return await proceed()

        app.middleware(Doubling())

        @app.task
        def echo(ctx: Context, number: int) -> tuple[int, str]:
            return number, ctx.state

        assert (await perform(echo, 4)).result == (8, "pool")
        assert seen == ["begin", "done", "end"]

    async def test_a_function_for_a_process_runs_here(self, app: Headrace) -> None:
        task = app.task(run_in="process")(crossed)
        outcome = await perform(task, 1, 2)
        assert outcome.result is not None
        assert {1, 2} < outcome.result

    def test_without_an_event_loop(self, app: Headrace) -> None:
        @app.task
        def add(a: int, b: int) -> int:
            return a + b

        assert perform_sync(add, 1, b=2).result == 3
        app.portal.close()


class TestWhatItSends:
    async def test_goes_to_a_store_in_memory(self, tmp_path: Path) -> None:
        file = tmp_path / "real.db"
        app = Headrace(f"sqlite:///{file}")

        @app.task
        async def welcome(to: str) -> None:
            await remind.options(delay=60).enqueue(to)

        @app.task
        def remind(to: str) -> None:
            raise OSError("away")

        first, second = [await perform(welcome, to) for to in ("ada", "bob")]
        assert [repr(each) for each in first.sent] == ["remind(to='ada') with delay=60"]
        assert [each.arguments for each in second.sent] == [{"to": "bob"}]
        with app.testing() as headrace:
            await remind.enqueue("cy")
            assert len((await perform(welcome, "ada")).sent) == 1
            headrace.assert_sent(remind, count=2)
        sync = await asyncio.to_thread(perform_sync, welcome, "ada")
        assert sync.sent[0].task == "remind"
        app.portal.close()
        assert not file.exists()

    async def test_also_if_several_are_performed_at_a_time(self, tmp_path: Path) -> None:
        file = tmp_path / "real.db"
        app = Headrace(f"sqlite:///{file}")
        first_has_ended = asyncio.Event()

        @app.task
        async def first() -> None: ...

        @app.task
        async def second() -> None:
            await first_has_ended.wait()
            await first.enqueue()

        performing = asyncio.create_task(perform(second))
        await perform(first)
        first_has_ended.set()
        assert [each.task for each in (await performing).sent] == ["first"]
        await perform(first)
        assert not file.exists()

    async def test_or_to_the_store_that_the_test_has_opened(self, app: Headrace) -> None:
        @app.task
        async def look(id: str) -> str:
            return await app.job(id).status()

        async with app:
            job = await look.enqueue("-")
            outcome = await perform(look, job.id)
            assert (outcome.result, outcome.sent) == ("waiting", [])


class TestBatches:
    async def test_one_item_or_several(self, app: Headrace) -> None:
        @app.task(batch=10)
        async def halve(numbers: list[int]) -> list[int]:
            if 13 in numbers:
                raise BatchError({numbers.index(13): ValueError("unlucky")})
            if 0 in numbers:
                raise OSError("away")
            return [number // 2 for number in numbers]

        assert (await perform(halve, 8)).result == 4
        assert [each.result for each in await perform_batch(halve, [8, 6])] == [4, 3]
        fine, unlucky = await perform_batch(halve, [8, 13])
        assert fine.done
        assert isinstance(unlucky.error, ValueError)
        assert [type(each.error) for each in await perform_batch(halve, [0, 1])] == [OSError] * 2
        assert await perform_batch(halve, []) == []

    async def test_what_is_no_batch(self, app: Headrace) -> None:
        @app.task
        async def single(number: int) -> int:
            return number

        @app.task(batch=2)
        async def pairs(numbers: list[int]) -> list[int]:
            return numbers

        with pytest.raises(ConfigError, match="functions that take batches"):
            await perform_batch(single, [1])
        with pytest.raises(ConfigError, match="at most 2 items at a time, not 3"):
            await perform_batch(pairs, [1, 2, 3])


class TestEvents:
    async def test_a_subscription_is_performed_with_an_event(self, app: Headrace) -> None:
        orders = app.topic("orders", Order, key=lambda order: order.id)

        @orders.subscribe("billing")
        async def bill(order: Order, delivery: Delivery, ctx: Context) -> None:
            assert (delivery.key, delivery.attempt) == (order.id, 2)
            assert ctx.queue == "billing@orders"
            if order.cents < 0:
                raise Reject("negative")

        assert (await perform(bill, Order("o-1", 5), attempt=2)).done
        assert (await perform(bill, Order("o-1", -5), attempt=2)).rejected
        with pytest.raises(ConfigError, match="with one event"):
            await perform(bill)

    async def test_events_that_are_settled_by_hand_or_not_at_all(self, app: Headrace) -> None:
        orders = app.topic("orders", Order)

        @orders.subscribe("by-hand", ack="manual")
        async def by_hand(order: Order, delivery: Delivery) -> None:
            if order.cents == 1:
                await delivery.ack()
            elif order.cents == 2:
                await delivery.retry(4)

        @orders.subscribe("once", ack="receive")
        async def once(order: Order) -> None:
            raise OSError("away")

        done, retried, left = [await perform(by_hand, Order("o", n)) for n in (1, 2, 3)]
        assert (done.state, retried.state, retried.delay) == ("done", "retried", 4)
        assert left.state == "left"
        lost = await perform(once, Order("o", 1))
        assert (lost.state, type(lost.error)) == ("lost", OSError)


async def test_bad_input_gets_a_sentence(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(ConfigError, match=r"perform\(\) takes a task and its arguments"):
        await perform(add.call(1, 2))  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"perform\(attempt=\) must be a whole number"):
        await perform(add, 1, 2, attempt=0)
    with pytest.raises(ArgumentError, match="missing a required argument: 'b'"):
        await perform(add, 1)
