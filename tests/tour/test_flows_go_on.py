"""Flows that failed, and go on from there, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import (
    ConfigError,
    Context,
    FlowCounts,
    Headrace,
    JobFailed,
    Retry,
    State,
    chain,
    group,
)
from tests.web.acting import post
from tests.web.browsing import Person


class Mill:
    """Tasks of which one fails until it is repaired; each run is noted."""

    def __init__(self, app: Headrace) -> None:
        self.ran: list[str] = []
        self.broken = True

        @app.task(retry=Retry(1))
        async def grind(number: int) -> int:
            self.ran.append(f"grind {number}")
            if number < 0 and self.broken:
                raise ValueError(f"{number} is too small")
            return abs(number)

        @app.task(queue="totals")
        async def total(numbers: list[int]) -> int:
            self.ran.append("total")
            return sum(numbers)

        @app.task
        async def show(number: int) -> str:
            self.ran.append("show")
            return f"it is {number}"

        self.grind, self.total, self.show = grind, total, show


@pytest.fixture
def mill(app: Headrace) -> Mill:
    return Mill(app)


async def test_only_what_failed_runs_again(app: Headrace, mill: Mill) -> None:
    flow = await app.enqueue(
        chain(
            group(mill.grind.call(number) for number in (1, -2, 3)),
            mill.total.call(),
            mill.show.call(),
        )
    )
    async with app.worker():
        with pytest.raises(JobFailed) as failed:
            await flow.result(timeout=20)
        assert failed.value.reason == "parent_failed"
        cause = failed.value.cause
        assert cause is not None
        assert (cause.task, cause.error_type, cause.reason) == (
            "grind", "ValueError", "retries_exhausted",
        )  # fmt: skip
        assert cause.job_id == flow.jobs[1].id
        assert "-2 is too small" in str(failed.value)
        assert "in grind" in cause.traceback
        assert failed.value.__cause__ is cause
        assert failed.value.task == "show"
        mill.broken = False
        assert await app.admin.replay(cause.job_id) == 1
        assert await app.admin.replay(cause.job_id) == 0
        assert await flow.result(timeout=20) == "it is 6"
    assert sorted(mill.ran) == ["grind -2", "grind -2", "grind 1", "grind 3", "show", "total"]


async def test_a_flow_goes_on_with_other_arguments(app: Headrace, mill: Mill) -> None:
    flow = await app.enqueue(group(mill.grind.call(n) for n in (1, -2)).then(mill.total.call()))
    async with app.worker():
        with pytest.raises(JobFailed) as failed:
            await flow.result(timeout=20)
        assert failed.value.cause is not None
        first = failed.value.cause.job_id
        with pytest.raises(ConfigError, match=f"because job {first} failed"):
            await app.admin.replay(flow.id, edit={"numbers": [1]})
        assert await app.admin.replay(first, edit={"number": 5}) == 1
        assert await flow.result(timeout=20) == 6


async def test_replaying_what_failed_with_another_replays_that_one(
    app: Headrace, mill: Mill
) -> None:
    """Also if there are several, and from the dashboard."""
    flow = await app.enqueue(
        group(mill.grind.call(number) for number in (-1, -2, 3)).then(mill.total.call())
    )
    async with app.worker(), Person(app) as person:
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        async with asyncio.timeout(20):
            while True:
                if len(await app.admin.dead("default")) == 2:
                    break
                await asyncio.sleep(0.01)
        mill.broken = False
        page = (await person.get("/job", id=flow.id, queue="totals")).text
        assert "failed first: ValueError: " in page
        async with asyncio.timeout(20):
            # In another queue, the second failure may arrive after the first was replayed.
            while await flow.status() is not State.DONE:
                if await flow.status() is State.DEAD:
                    await post(person, "replay", id=flow.id, queue="totals")
                await asyncio.sleep(0.01)
        assert await flow.result(timeout=20) == 6


async def test_why_names_the_job_that_failed_first(app: Headrace, mill: Mill) -> None:
    flow = await app.enqueue(chain(mill.grind.call(-1), mill.grind.call(), mill.show.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
    first = flow.jobs[0].id
    assert await app.admin.why(flow.id) == (
        f"It is dead (parent_failed): job {first} of task 'grind' in queue 'default' failed first: "
        "ValueError: -1 is too small."
    )
    detail = await app.admin.job(flow.id)
    assert detail.cause is not None
    assert (detail.cause.id, detail.cause.queue) == (first, "default")
    await app.admin.purge(first)
    with pytest.raises(ConfigError, match=f"it waited for job {first}.*purged since"):
        await app.admin.replay(flow.id)
    assert await app.admin.why(flow.id) == (
        f"It is dead (parent_failed): it waited for job {first}, which failed and is not kept."
    )


async def test_a_flow_resumes_by_itself(app: Headrace, mill: Mill) -> None:
    flow = await app.enqueue(
        group(mill.grind.call(number) for number in (-1, 2, -3)).then(mill.total.call())
    )
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        async with asyncio.timeout(20):
            while True:
                if await flow.counts() == FlowCounts(done=1, dead=3):
                    break
                await asyncio.sleep(0.01)
        assert await flow.status() is State.DEAD
        mill.broken = False
        assert await flow.resume() == 2
        assert await flow.resume() == 0
        assert await flow.result(timeout=20) == 6
    assert await flow.counts() == FlowCounts(done=4)
    assert await flow.status() is State.DONE
    assert (await flow.progress()).fraction == 1
    assert await flow.resume() == 0


async def test_what_fails_again_at_once_is_replayed_once(
    app: Headrace, mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await app.enqueue(group(mill.grind.call(n) for n in (-1, -2)).then(mill.total.call()))

    async def has_failed() -> None:
        while True:
            if await flow.counts() == FlowCounts(dead=3):
                break
            await asyncio.sleep(0.01)

    await failing_at_once(app, has_failed, monkeypatch)
    async with app.worker(), asyncio.timeout(30):
        await has_failed()
        mill.ran.clear()
        assert await flow.resume() == 2
        assert sorted(mill.ran) == ["grind -1", "grind -2"]
        mill.ran.clear()
        assert await app.admin.resume_flow(flow.id) == 2
        assert sorted(mill.ran) == ["grind -1", "grind -2"]
        mill.ran.clear()
        await app.admin.replay([flow.id, *(job.id for job in flow.jobs)])
        assert sorted(mill.ran) == ["grind -1", "grind -2"]


async def failing_at_once(
    app: Headrace, has_failed: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever replays jobs hears of it when they have failed again."""
    store = (await app.session()).store
    replay = store.replay

    async def replay_and_fail(*args: Any, **options: Any) -> list[bool]:
        done = await replay(*args, **options)
        await has_failed()
        return done

    monkeypatch.setattr(store, "replay", replay_and_fail)


async def test_a_flow_is_counted_while_it_runs(app: Headrace) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold(number: int) -> int:
        begun.set()
        if number:
            await go_on.wait()
        return number

    @app.task(queue="totals")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    flow = await app.enqueue(group(hold.call(n) for n in (0, 1, 2)).then(total.call()))
    assert await flow.counts() == FlowCounts(waiting=3, blocked=1)
    assert await flow.status() is State.WAITING
    states: list[State] = []
    counted: list[FlowCounts] = []
    async with app.worker(), asyncio.timeout(30):
        async for update in flow.watch(poll=0.02):
            states.append(update.state)
            counted.append(update.counts)
            assert update.counts.total == 4
            assert update.progress is not None
            assert update.progress.fraction == update.counts.done / 4
            if update.counts == FlowCounts(done=1, running=2, blocked=1):
                assert (await flow.progress()).text == "1 of 4"
                info = await flow.info()
                assert (info.state, info.progress and info.progress.fraction) == (
                    State.RUNNING, 0.25,
                )  # fmt: skip
                go_on.set()
    assert states[-1] is State.DONE
    assert FlowCounts(done=1, running=2, blocked=1) in counted
    assert counted[-1] == FlowCounts(done=4)
    assert await flow.result(timeout=5) == 3


@pytest.mark.parametrize("running", [True, False])
async def test_cancelling_a_flow_ends_running_jobs_too(app: Headrace, running: bool) -> None:
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), list[int]()

    @app.task
    async def hold(number: int) -> int:
        begun.set()
        await go_on.wait()
        ended.append(number)
        return number

    @app.task
    async def after(number: int) -> None: ...

    flow = await app.enqueue(chain(hold.call(1), after.call()))
    async with app.worker(), asyncio.timeout(30):
        await begun.wait()
        assert await (flow.cancel() if running else flow.cancel(running=False))
        if not running:
            assert await flow.counts() == FlowCounts(running=1, cancelled=1)
            go_on.set()
        while True:
            counts = await flow.counts()
            if not counts.live:
                break
            await asyncio.sleep(0.01)
    if running:
        assert (counts, ended) == (FlowCounts(cancelled=2), [])
    else:
        assert (counts, ended) == (FlowCounts(cancelled=1, done=1), [1])


async def test_counts_without_results(app: Headrace) -> None:
    """Nothing is kept of the jobs, but how many there were."""

    @app.task(result_ttl=0, keep_done=0)
    async def vanish() -> None: ...

    flow = await app.enqueue(group([vanish.call(), vanish.call()]))
    async with app.worker(), asyncio.timeout(30):
        while True:
            if await flow.status() is State.DONE:
                break
            await asyncio.sleep(0.01)
    assert await flow.counts() == FlowCounts(done=2)
    info = await flow.info()
    assert (info.state, info.progress and info.progress.text) == (State.DONE, "2 of 2")


TREE = {"/": ["/a", "/b"], "/a": ["/a/x", "/a/y"], "/b": [], "/a/x": [], "/a/y": ["/a/y/z"]}


async def test_a_running_job_adds_more_before_the_join(app: Headrace) -> None:
    """A directory walk, of which one step fails at first."""
    failing = ["/a/y"]

    @app.task(queue="walks", retry=Retry(1))
    async def walk(ctx: Context, path: str) -> str:
        for each in TREE.get(path, []):
            await ctx.flow.add(walk.call(each))
        if path in failing:
            raise OSError(f"{path} cannot be read")
        return path

    @app.task
    async def count(paths: list[str]) -> list[str]:
        return sorted(paths)

    flow = await app.enqueue(group([walk.call("/")]).then(count.call()))
    async with app.worker():
        with pytest.raises(JobFailed, match="/a/y cannot be read"):
            await flow.result(timeout=20)
        async with asyncio.timeout(20):
            while True:
                if await flow.counts() == FlowCounts(done=5, dead=2):
                    break
                await asyncio.sleep(0.01)
        failing.clear()
        assert await flow.resume() == 1
        assert await flow.result(timeout=20) == ["/", "/a", "/a/x", "/a/y", "/a/y/z", "/b"]
    assert await flow.counts() == FlowCounts(done=7)


async def test_jobs_are_added_in_threads_and_in_other_queues(app: Headrace) -> None:
    @app.task(queue="pages")
    def page(number: int) -> int:
        return number

    @app.task
    def listing(ctx: Context) -> int:
        for number in (1, 2, 3):
            ctx.flow.add_sync(page.call(number))
        return 0

    @app.task
    async def total(numbers: list[int]) -> list[int]:
        return numbers

    flow = await app.enqueue(group([listing.call()]).then(total.call()))
    async with app.worker():
        assert await flow.result(timeout=20) == [0, 1, 2, 3]
    assert await flow.counts() == FlowCounts(done=5)


async def test_added_jobs_are_cancelled_with_the_flow(app: Headrace) -> None:
    added = asyncio.Event()

    @app.task(queue="later")
    async def never() -> None: ...

    @app.task
    async def add(ctx: Context) -> None:
        await ctx.flow.add(never.options(delay=3600).call())
        added.set()
        await asyncio.Event().wait()

    @app.task
    async def join() -> None: ...

    flow = await app.enqueue(chain(add.call(), join.call()))
    async with app.worker(), asyncio.timeout(30):
        await added.wait()
        assert await flow.counts() == FlowCounts(running=1, scheduled=1, blocked=1)
        assert await flow.cancel()
        while True:
            if await flow.counts() == FlowCounts(cancelled=3):
                break
            await asyncio.sleep(0.01)


async def test_a_job_without_a_flow_adds_nothing(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def alone(ctx: Context) -> None:
        await ctx.flow.add(alone.call())

    job = await alone.enqueue()
    async with app.worker():
        with pytest.raises(JobFailed, match="is in no flow"):
            await job.result(timeout=20)


async def test_a_large_flow_keeps_all_that_succeeded(app: Headrace, mill: Mill) -> None:
    numbers = [-n if n in (7, 800, 1_999) else n for n in range(2_000)]
    flow = await app.enqueue(group(map(mill.grind.call, numbers)).then(mill.total.call()))
    async with app.worker(), asyncio.timeout(120):
        with pytest.raises(JobFailed, match="is too small"):
            await flow.result(timeout=100)
        while True:
            if await flow.counts() == FlowCounts(done=1_997, dead=4):
                break
            await asyncio.sleep(0.05)
        mill.broken = False
        assert await flow.resume() == 3
        assert await flow.result(timeout=100) == sum(range(2_000))
    assert len(mill.ran) == 2_000 + 3 + 1
    assert await flow.counts() == FlowCounts(done=2_001)
