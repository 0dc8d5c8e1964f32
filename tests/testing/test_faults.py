"""A test lets workers die and the store fail, and sees what its program does then."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import pytest

from headrace import ConfigError, Context, EnqueueUnknown, Headrace, JobFailed, StoreUnavailable
from headrace.testing import TestKit

app = Headrace("memory://", crash_limit=3)
runs: list[tuple[str, int]] = []
balance: dict[str, int] = {}


@app.task
async def pay(ctx: Context, order: str) -> None:
    """Not idempotent."""
    runs.append((order, ctx.fence))
    balance[order] = balance.get(order, 0) + 1


@app.task
async def wait(ctx: Context, order: str) -> str:
    runs.append((order, ctx.fence))
    if ctx.fence == 1:
        await asyncio.Event().wait()
    return "second"


@app.task(batch=10)
async def gather(ctx: Context, orders: list[str]) -> None:
    runs.append((",".join(sorted(orders)), ctx.fence))


topic = app.topic("orders", str)


@topic.subscribe("billing")
async def bill(ctx: Context, order: str) -> None:
    runs.append((order, ctx.fence))


@pytest.fixture
def kit():  # type: ignore[no-untyped-def]
    runs.clear()
    balance.clear()
    with app.testing() as headrace:
        yield headrace


class TestWorkersThatDie:
    async def test_after_the_run_it_runs_again(self, kit: TestKit) -> None:
        kit.crash(after="run")
        job = await pay.enqueue("o-1")
        await kit.drain()
        assert balance == {"o-1": 2}
        assert runs == [("o-1", 1), ("o-1", 2)]
        assert await job.status() == "done"

    async def test_before_the_run_it_runs_once(self, kit: TestKit) -> None:
        kit.crash(before="run")
        await pay.enqueue("o-1")
        await kit.drain()
        assert runs == [("o-1", 2)]

    async def test_a_job_that_kills_its_workers_is_dead(self, kit: TestKit) -> None:
        kit.crash(pay, times=3)
        job = await pay.enqueue("o-1")
        await kit.drain(raise_errors=False)
        assert await job.status() == "dead"
        assert len(runs) == 3

    @pytest.mark.parametrize("after", ["run", "fetch"])
    async def test_no_more_workers_die_than_may(
        self, kit: TestKit, after: Literal["run", "fetch"]
    ) -> None:
        kit.crash(pay, after=after, times=5)
        job = await pay.enqueue("o-1")
        await kit.drain(raise_errors=False)
        assert len(runs) == (3 if after == "run" else 0)
        with pytest.raises(JobFailed, match="3 workers died"):
            await job.result(5)

    async def test_no_more_leases_are_lost_than_may(self, kit: TestKit) -> None:
        kit.lose_lease(pay, times=5)
        job = await pay.enqueue("o-1")
        await kit.drain(raise_errors=False)
        assert len(runs) == 3
        assert await job.status() == "dead"

    async def test_a_job_that_never_runs_kills_no_worker(self, kit: TestKit) -> None:
        kit.crash(pay)
        late = await pay.options(expires=1).enqueue("o-1")
        kit.clock.advance(seconds=2)
        await kit.drain(raise_errors=False)
        assert await late.status() == "dead"
        await pay.enqueue("o-2")
        await kit.drain()
        assert runs == [("o-2", 1), ("o-2", 2)]

    async def test_a_batch_runs_again_as_a_whole(self, kit: TestKit) -> None:
        kit.crash(gather)
        await app.enqueue_many([gather.call("o-1"), gather.call("o-2")])
        await kit.drain()
        assert runs == [("o-1,o-2", 1), ("o-1,o-2", 2)]

    async def test_only_of_one_task_or_group(self, kit: TestKit) -> None:
        kit.crash(bill)
        await pay.enqueue("o-1")
        await topic.publish("o-2")
        await kit.drain()
        assert sorted(runs) == [("o-1", 1), ("o-2", 1), ("o-2", 2)]

    async def test_only_of_one_name(self, kit: TestKit) -> None:
        kit.crash(pay.name)
        kit.lose_lease("orders/billing")
        await pay.enqueue("o-1")
        await topic.publish("o-2")
        await kit.drain()
        assert sorted(runs) == [("o-1", 1), ("o-1", 2), ("o-2", 1), ("o-2", 2)]

    async def test_a_lease_that_is_lost_while_it_runs(self, kit: TestKit) -> None:
        kit.lose_lease(wait)
        job = await wait.enqueue("o-1")
        await kit.drain()
        assert runs == [("o-1", 1), ("o-1", 2)]
        assert await job.result(5) == "second"

    async def test_a_run_that_ends_before_its_lease_is_lost_is_not_written(
        self, kit: TestKit
    ) -> None:
        kit.lose_lease()
        await pay.enqueue("o-1")
        await kit.drain()
        assert runs == [("o-1", 1), ("o-1", 2)]

    async def test_a_fault_that_did_not_happen_fails_the_test(self) -> None:
        kit = app.testing()
        kit.__enter__()
        kit.crash(after="run")
        with pytest.raises(AssertionError, match=r"crash\(after='run'\) did not happen"):
            kit.__exit__(None, None, None)

    async def test_a_request_that_did_not_come_fails_the_test(self) -> None:
        kit = app.testing()
        kit.__enter__()
        kit.fail("append", times=100)
        kit.fail("settle")
        with pytest.raises(StoreUnavailable):
            await pay.enqueue("o-1")
        with pytest.raises(AssertionError, match=r"fail\('settle'\) did not happen"):
            await kit.__aexit__(None, None, None)

    def test_other_points_are_refused(self, kit: TestKit) -> None:
        with pytest.raises(ConfigError, match=r"crash\(after='lunch'\): use before='run'"):
            kit.crash(after="lunch")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="not both"):
            kit.crash(before="run", after="run")
        with pytest.raises(
            ConfigError, match=r"crash\(.*\): the app has no task 'pays'; it has pay, "
        ):
            kit.crash("pays")
        with pytest.raises(ConfigError, match=r"lose_lease\(\) takes a task, or its name, not 5"):
            kit.lose_lease(5)  # type: ignore[arg-type]


class TestAStoreThatFails:
    async def test_a_web_request_while_it_is_away(self, kit: TestKit) -> None:
        with kit.down():
            with pytest.raises(StoreUnavailable, match="the test said down"):
                await pay.enqueue("o-1")
            with pytest.raises(StoreUnavailable):
                await topic.publish("o-1")
            with pytest.raises(StoreUnavailable):
                await kit.drain()
        await pay.enqueue("o-1")
        kit.assert_sent(pay, count=1)

    def test_without_an_event_loop(self, kit: TestKit) -> None:
        with kit.store.down(), pytest.raises(StoreUnavailable):
            pay.enqueue_sync("o-1")
        assert kit.sent() == []

    async def test_one_request(self, kit: TestKit) -> None:
        kit.fail("append")
        with pytest.raises(StoreUnavailable, match="failed at 'append', and it was not carried"):
            await pay.enqueue("o-1")
        kit.store.fail("append", applied=True)
        with pytest.raises(EnqueueUnknown):
            await pay.enqueue("o-2")
        assert [each.arguments["order"] for each in kit.sent(pay)] == ["o-2"]

    async def test_an_outcome_is_written_when_the_store_answers_again(self, kit: TestKit) -> None:
        kit.fail("settle")
        job = await pay.enqueue("o-1")
        await kit.drain()
        assert runs == [("o-1", 1)]
        assert await job.status() == "done"

    async def test_a_worker_tries_again(self, kit: TestKit) -> None:
        kit.fail("fetch")
        kit.fail("promote")
        kit.fail("time_ms")
        kit.fail("fetch", applied=True)
        await pay.enqueue("o-1")
        await kit.drain()
        assert runs == [("o-1", 1)]

    async def test_a_store_that_is_slow(self, kit: TestKit) -> None:
        await pay.enqueue("o-1")
        with kit.slow(0.03, "append"):
            began = time.monotonic()
            await pay.enqueue("o-2")
            assert time.monotonic() - began >= 0.03
        with kit.slow(10), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pay.enqueue("o-3")

    def test_a_verb_that_does_not_exist(self, kit: TestKit) -> None:
        with pytest.raises(ConfigError, match=r"did you mean 'settle'") as refused:
            kit.fail("settel")
        assert len(str(refused.value)) < 250
        with pytest.raises(ConfigError, match=r"no verb 'nonsense': 'append' sends jobs"):
            kit.fail("nonsense")
        with pytest.raises(ConfigError, match=r"did you mean 'append'\?"):
            kit.fail("enqueue")
        with pytest.raises(ConfigError, match="whole number of at least 1"):
            kit.fail("settle", times=0)
