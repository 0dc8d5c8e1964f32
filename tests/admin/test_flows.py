"""`app.admin.flow()`: the graph around a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from headrace import Context, Headrace, JobNotFound, Retry, State, chain, group
from headrace.admin import FlowInfo, FlowJobInfo, JobCause
from headrace.core.flow import graph
from headrace.core.flow.flow import plan
from headrace.core.flow.graph import GraphBuilder, decode_graph
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.ids import to_id, to_text
from headrace.core.job.parcel import FlowMembership
from tests.browser.shop import has_dead
from tests.browser.shop import until as until_true


class Tasks:
    """Tasks of which one waits until it is let go; what they return is kept by nobody."""

    def __init__(self, app: Headrace) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()

        @app.task(result_ttl=0)
        async def first(number: int) -> int:
            return number

        @app.task(result_ttl=0, queue="other")
        async def held(number: int) -> int:
            self.begun.set()
            await self.go.wait()
            return number

        @app.task(result_ttl=0, retry=Retry(1))
        async def fail(number: int) -> int:
            raise ValueError(number)

        @app.task(result_ttl=0)
        async def join(numbers: list[int]) -> int:
            return sum(numbers)

        self.first, self.held, self.fail, self.join = first, held, fail, join


def states_by_task(flow: FlowInfo) -> dict[str | None, list[State | None]]:
    """The states by task, in order."""
    found: dict[str | None, list[State | None]] = {}
    for job in flow.jobs:
        found.setdefault(job.task and job.task.rpartition(".")[2], []).append(job.state)
    return found


async def until(app: Headrace, id: str, fits: Callable[[FlowInfo], bool]) -> FlowInfo:
    async with asyncio.timeout(10):
        while not fits(flow := await app.admin.flow(id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return flow


async def test_a_flow_is_reported_with_what_waits_for_what_across_queues(app: Headrace) -> None:
    tasks = Tasks(app)
    steps = [chain(tasks.first.call(n), tasks.held.call()) for n in (1, 2)]
    sent = await app.enqueue(group(steps).then(tasks.join.call()))
    heads = {job.id for job in sent.jobs if await job.status() is State.WAITING}
    for job in sent.jobs:
        flow = await app.admin.flow(job.id)
        assert (flow.id, flow.complete) == (sent.id, True)
        by_id = {each.id: each for each in flow.jobs}
        assert by_id.keys() == {each.id for each in sent.jobs}
        *_, last = flow.jobs
        assert (last.id, last.children, last.state) == (sent.id, (), State.BLOCKED)
        assert [by_id[id].queue for id in last.parents] == ["other", "other"]
        assert {by_id[id].parents for id in last.parents} == {(id,) for id in heads}
        assert {by_id[id].children for id in heads} == {(id,) for id in last.parents}
        assert states_by_task(flow)["first"] == [State.WAITING] * 2


async def test_a_job_that_is_forgotten_is_done_if_what_follows_it_goes_on(app: Headrace) -> None:
    tasks = Tasks(app)
    steps = [chain(tasks.first.call(n), tasks.first.call()) for n in (1, 2)]
    both = group([*steps, chain(tasks.first.call(3), tasks.held.call())])
    async with app.worker(queues=["default", "other"]):
        sent = await app.enqueue(both.then(tasks.join.call()))
        await tasks.begun.wait()
        # The join knows of two that are forgotten; the third runs.
        flow = await until(
            app, sent.id, lambda flow: None not in states_by_task(flow)["first"]
            and State.WAITING not in states_by_task(flow)["first"],
        )  # fmt: skip
        assert states_by_task(flow) == {
            "first": [State.DONE] * 5, "held": [State.RUNNING], "join": [State.BLOCKED],
        }  # fmt: skip
        (running,) = (job for job in flow.jobs if job.state is State.RUNNING)
        assert await app.admin.flow(running.id) == flow
        tasks.go.set()


async def test_what_was_never_stored_is_not_said_to_be_done(app: Headrace) -> None:
    tasks = Tasks(app)
    last, first = plan(chain(tasks.first.call(1), tasks.first.call()))
    drawn = GraphBuilder([last, first], last.job_id, {}).carried_by(last)
    membership = FlowMembership(
        last.job_id, last.job_id, "one", (first.job_id,), (), "default", drawn
    )
    # As a sender leaves it that is killed half way.
    store = (await app.session()).store
    await store.append("default", [last.call.parcel(0, membership)])
    flow = await app.admin.flow(to_text(last.job_id))
    assert states_by_task(flow) == {"first": [None, State.BLOCKED]}


async def test_of_a_flow_that_failed_all_that_is_dead_is_reported(app: Headrace) -> None:
    tasks = Tasks(app)
    async with app.worker():
        sent = await app.enqueue(
            chain(tasks.first.call(1), tasks.fail.call(), tasks.first.call(), tasks.first.call())
        )
        flow = await until(app, sent.id, lambda flow: flow.jobs[-1].state is State.DEAD)
    assert [job.state for job in flow.jobs] == [State.DONE, State.DEAD, State.DEAD, State.DEAD]
    assert await app.admin.flow(flow.jobs[1].id) == flow
    timed = await app.admin.flow(sent.id, times=True)
    known = [(job.started is not None, job.ended is not None) for job in timed.jobs]
    assert known == [(True, True)] * 2 + [(False, False)] * 2, "when each ran that did, dead or not"


async def test_what_was_done_before_another_failed_is_known_to_be_done(app: Headrace) -> None:
    tasks = Tasks(app)
    flow = await app.enqueue(
        group([tasks.first.options(queue="other").call(1), tasks.fail.call(2)]).then(
            tasks.join.call()
        )
    )
    async with app.worker(queues=["other"]), asyncio.timeout(30):
        while True:
            if (await flow.counts()).done:
                break
            await asyncio.sleep(0.01)
    async with app.worker(), asyncio.timeout(30):
        while True:
            found = states_by_task(await app.admin.flow(flow.id))
            if found == {
                "first": [State.DONE], "fail": [State.DEAD], "join": [State.DEAD],
            }:  # fmt: skip
                break
            await asyncio.sleep(0.01)


async def test_a_job_that_was_sent_before_is_part_of_the_flow(app: Headrace) -> None:
    tasks = Tasks(app)
    before = await tasks.held.enqueue(1)
    sent = await app.enqueue(tasks.join.call().after(before, tasks.first.call(2)))
    flow = await app.admin.flow(sent.id)
    assert [(job.task or "").rpartition(".")[2] for job in flow.jobs] == ["held", "first", "join"]
    assert flow.jobs[0] == FlowJobInfo(
        before.id, "other", flow.jobs[0].task, State.WAITING, (), (sent.id,)
    )
    assert flow.jobs[-1].parents == (before.id, flow.jobs[1].id)


async def test_a_job_of_no_flow_stands_alone(app: Headrace) -> None:
    job = await Tasks(app).first.enqueue(1)
    flow = await app.admin.flow(job.id)
    assert (flow.id, flow.complete, states_by_task(flow)) == (
        job.id,
        True,
        {"first": [State.WAITING]},
    )
    with pytest.raises(JobNotFound):
        await app.admin.flow("unknown")


async def test_what_may_outlive_the_first_of_a_group_knows_its_neighbours(app: Headrace) -> None:
    tasks = Tasks(app)
    steps = [chain(tasks.first.call(n), tasks.first.call()) for n in range(3)]
    sent = await app.enqueue(group(steps))
    assert len((await app.admin.flow(sent.jobs[-1].id)).jobs) == 6
    await app.admin.cancel([sent.id])
    await app.admin.forget(sent.id)
    flows = [await app.admin.flow(job.id) for job in sent.jobs if job.id != sent.id]
    assert sorted(len(flow.jobs) for flow in flows) == [1, 2, 2, 2, 2]
    assert {(flow.id, flow.complete) for flow in flows} == {(sent.id, False)}


async def test_of_a_large_flow_the_jobs_near_its_end_are_reported(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "MOST", 4)
    tasks = Tasks(app)
    sent = await app.enqueue(group(tasks.first.call(n) for n in range(8)).then(tasks.join.call()))
    flow = await app.admin.flow(sent.id)
    assert (len(flow.jobs), flow.complete, flow.jobs[-1].id) == (4, False, sent.id)
    shown = {job.id for job in flow.jobs}
    (hidden, *_) = (job for job in sent.jobs if job.id not in shown)
    near = await app.admin.flow(hidden.id)
    assert [job.id for job in near.jobs] == [hidden.id, sent.id]
    assert (near.id, near.complete, near.jobs[0].children) == (sent.id, False, (sent.id,))


async def test_only_jobs_of_flows_carry_more_than_before(app: Headrace) -> None:
    tasks = Tasks(app)
    plain = await tasks.first.enqueue(1)
    sent = await app.enqueue(chain(tasks.first.call(1), tasks.held.call(), tasks.first.call()))
    store = (await app.session()).store

    async def carried(id: str, queue: str = "default") -> tuple[str, bool]:
        (seen,) = await store.get(queue, [to_id(id)], bodies=True)
        assert seen is not None
        overrides = decode_envelope(seen.envelope).overrides
        return overrides.end_queue, bool(overrides.graph)

    first, middle, last = sent.jobs
    assert await carried(plain.id) == ("", False)
    assert await carried(first.id) == ("", False)
    assert await carried(middle.id, "other") == ("default", False)
    assert await carried(last.id) == ("", True)


def test_a_graph_that_makes_no_sense_is_none() -> None:
    assert decode_graph(b"") is None
    assert decode_graph(b"\xc1") is None
    encode = graph._encode
    assert decode_graph(encode((["q"], [(b"k", 0, 0, [1])]))) is None
    assert decode_graph(encode((["q"], [(b"k", 1, 0)]))) is None
    assert decode_graph(encode((["q"], [(b"k", 0, -1)]))) is not None


async def test_jobs_that_are_added_while_a_flow_runs_are_part_of_it(app: Headrace) -> None:
    go = asyncio.Event()

    @app.task(name="page", queue="pages", result_ttl=0)
    async def page(number: int) -> int:
        await go.wait()
        return number

    @app.task(name="listing")
    async def listing(ctx: Context) -> int:
        for number in (1, 2):
            await ctx.flow.add(page.call(number))
        return 0

    @app.task(name="total")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    sent = await app.enqueue(group([listing.call()]).then(total.call()))
    async with app.worker():
        flow = await until(app, sent.id, lambda flow: len(flow.jobs) == 4)
        assert flow.complete
        assert states_by_task(flow)["total"] == [State.BLOCKED]
        assert [job.task for job in flow.parents_of(sent.id)] == ["listing", "page", "page"]
        added = flow.parents_of(sent.id)[-1]
        assert (added.queue, added.children) == ("pages", (sent.id,))
        assert {job.id for job in (await app.admin.flow(added.id)).jobs} == {
            job.id for job in flow.jobs
        }
        assert f"job {added.id} of task 'page'" in await app.admin.why(sent.id)
        go.set()
        assert await sent.result(timeout=20) == 3
    flow = await app.admin.flow(sent.id)
    assert flow.complete
    assert states_by_task(flow) == {
        "page": [State.DONE] * 2,
        "listing": [State.DONE],
        "total": [State.DONE],
    }
    await app.admin.forget([job.id for job in flow.jobs if job.task == "page"])
    flow = await app.admin.flow(sent.id)
    assert (len(flow.jobs), flow.complete) == (2, False)


async def test_a_job_that_died_with_another_says_with_which_in_every_list(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def load() -> int:
        raise ConnectionError("the bank is away")

    @app.task(queue="sums")
    async def add(number: int) -> int:
        return number

    last = await app.enqueue(chain(load.call(), add.call()))
    async with app.worker():
        await until_true(partial(has_dead, app, "sums", 1))
    (loaded,) = await app.admin.dead("default")
    text = f"it waited for job {loaded.id}, which failed"
    (listed,) = await app.admin.dead("sums")
    (paged,) = (await app.admin.dead_page("sums")).jobs
    shown = await app.admin.dead_job(last.id)
    cause = JobCause(loaded.id, "default")
    for info in (listed, paged, shown):
        assert (info.error, info.error_type, info.cause) == (text, "", cause)
    assert loaded.error == "ConnectionError: the bank is away"
    (summary,) = (await app.admin.jobs("sums", "dead")).jobs
    assert summary.error == text
    (group,) = (await app.admin.dead_groups("sums")).groups
    assert group.error == "a job that it waited for failed"
