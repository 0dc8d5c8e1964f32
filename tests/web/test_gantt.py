"""Runs as bars on one scale of time."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from headrace import Headrace, Retry, State, group
from headrace.admin.jobs.flow_survey import FlowInfo, FlowJobInfo
from headrace.web.rendering.gantt import WIDTH, gantt_of_flow
from tests.web.browsing import Person

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=10)


@pytest.fixture
def store_url() -> str:
    return "memory://"


def ran(id: str, task: str, start: float, took: float, *parents: str) -> FlowJobInfo:
    started = BEGAN + timedelta(seconds=start)
    ended = started + timedelta(seconds=took)
    return FlowJobInfo(id, "default", task, State.DONE, parents, (), started, ended)


def test_bars_are_where_and_as_long_as_the_runs_were() -> None:
    jobs = (ran("a", "load", 0, 2), ran("b", "save", 3, 1, "a"))
    gantt = gantt_of_flow(FlowInfo("b", jobs, complete=True), NOW)
    assert gantt is not None
    assert (gantt.began, gantt.length) == (BEGAN, "4 s")
    (first,), (second,) = (row.bars for row in gantt.rows)
    assert (first.x, first.width) == (0, WIDTH / 2)
    assert (second.x, second.width) == (WIDTH * 3 / 4, WIDTH / 4)


def test_jobs_that_stand_alike_share_a_row_and_what_never_ran_has_none() -> None:
    loads = [ran(f"{n}", "load", n, 0) for n in range(60)]
    last = FlowJobInfo("j", "default", "join", State.BLOCKED, tuple(j.id for j in loads), ())
    gantt = gantt_of_flow(FlowInfo("j", (*loads, last), complete=True), NOW)
    assert gantt is not None
    (row,) = gantt.rows
    assert len(row.bars) == 60
    assert all(0 <= bar.x <= WIDTH and bar.width > 0 for bar in row.bars)
    assert gantt_of_flow(FlowInfo("j", (loads[0], last), complete=True), NOW) is None


def test_a_run_that_goes_on_lasts_until_now() -> None:
    running = FlowJobInfo("b", "default", "save", State.RUNNING, ("a",), (), BEGAN)
    gantt = gantt_of_flow(FlowInfo("b", (ran("a", "load", 0, 5), running), complete=True), NOW)
    assert gantt is not None
    assert gantt.length == "10 s"
    bars = {bar.tone: (bar.x, bar.width) for row in gantt.rows for bar in row.bars}
    assert bars == {"done": (0, WIDTH / 2), "running": (0, WIDTH)}


async def test_the_page_of_a_flow_shows_what_runs(app: Headrace) -> None:
    goes_on = asyncio.Event()

    @app.task
    async def load(number: int) -> int:
        if number:
            await goes_on.wait()
        return number

    @app.task
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    async with app.worker(), Person(app) as person, asyncio.timeout(30):
        flow = await app.enqueue(group([load.call(n) for n in range(3)]).then(add.call()))
        bars: list[str] = []
        while bars != ["done", "running", "running"]:
            await asyncio.sleep(0.05)
            page = await person.page("/job", id=flow.id)
            bars = sorted(re.findall('<rect class="(done|running)"', page))
        info = await app.admin.flow(flow.id, times=True)
        runs = [job for job in info.jobs if job.state is State.RUNNING]
        assert all(job.started is not None and job.ended is None for job in runs)
        goes_on.set()
        assert await flow.result() == 3


async def test_the_pages_of_a_job_and_of_a_flow_have_them(app: Headrace) -> None:
    @app.task(retry=Retry(2, backoff=[0.01]))
    async def load(number: int) -> int:
        if number < 0:
            raise ValueError("no")
        return number

    @app.task
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    async with app.worker(), asyncio.timeout(30):
        flow = await app.enqueue(group([load.call(n) for n in range(5)]).then(add.call()))
        assert await flow.result() == 10
        failed = await load.enqueue(-1)
        while (await failed.status()) is not State.DEAD:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    async with Person(app) as person:
        page = await person.page("/job", id=flow.id)
        assert 'aria-label="Runs of the flow on a scale of time"' in page
        assert page.count('<rect class="done"') == 6
        page = await person.page("/job", id=failed.id)
        assert 'aria-label="Attempts on a scale of time"' in page
        assert page.count('<rect class="dead"') == 2
