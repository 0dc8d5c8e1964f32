"""What is measured: real runs, much too small to say how fast anything is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from headrace import Headrace
from headrace.benchmark.figures import QUICK, Figure
from headrace.benchmark.footprint import measure_footprint, measure_starts
from headrace.benchmark.raw import RawSqlite
from headrace.benchmark.runners import RunnerDrains, bare_threads, measure_runners
from tests.servers import RedisServer

SMALL = msgspec.structs.replace(
    QUICK, drain=1000, plain=200, apart=40, asleep=64, alone=1500, idle_seconds=0.2
)


def silent(_: str) -> None: ...


def names(figures: list[Figure]) -> list[str]:
    assert all(figure.value > 0 and figure.reached is not None for figure in figures)
    return [figure.name for figure in figures]


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure("faster than half", 6, "/s", 10, 0.5), True),
        (Figure("slower than half", 4, "/s", 10, 0.5), False),
        (Figure("slower, but fast enough", 4, "/s", 10, 0.5, enough=4), True),
        (Figure("slower, and not fast", 4, "/s", 10, 0.5, enough=5), False),
        (Figure("small enough", 90, "bytes", limit=100, at_most=True), True),
        (Figure("too large", 110, "bytes", limit=100, at_most=True), False),
        (Figure("nothing wanted", 4, "/s", 10), None),
    ],
    ids=lambda value: value.name if isinstance(value, Figure) else "",
)
def test_a_figure_says_whether_its_target_was_met(figure: Figure, reached: bool | None) -> None:
    assert figure.reached is reached


async def test_each_drain_runs_every_job(store_url: str, namespace: str) -> None:
    async with Headrace(store_url, namespace=namespace) as app:
        drains = RunnerDrains(app)
        for task in (drains.on_loop, drains.in_threads, drains.asleep, drains.in_processes):
            assert await drains.drain(task, 20, processes=1) > 0
            done = [
                event
                async for event in app.admin.events(task.declared.queue)
                if event.kind == "done"
            ]
            assert len(done) == 50 + 1 + 20


def test_bare_threads_make_every_call() -> None:
    made: list[None] = []
    assert bare_threads(lambda: made.append(None), 100, 4) > 0
    assert len(made) == 100


async def test_runners_are_compared(redis_url: str) -> None:
    assert names(await measure_runners(redis_url, SMALL, silent)) == [
        "drain of plain functions, to async",
        "drain in 2 processes, to async",
        "1 ms in 32 threads, to bare threads",
    ]


async def test_memory_is_measured_with_and_without_events(redis_server: RedisServer) -> None:
    figures = await measure_footprint(redis_server.url, SMALL, silent)
    bytes_of = {each.name: each.value for each in figures if each.unit == "bytes"}
    assert len(bytes_of) == 4
    # Of a few jobs, what else the server does weighs as much as events.
    for name in ("memory per waiting job", "memory per job sent alone"):
        assert bytes_of[name] > 0
        assert bytes_of[f"{name}, events on"] > 0


async def test_starts_are_measured(redis_url: str) -> None:
    figures = await measure_starts(redis_url, silent)
    assert names(figures) == ["start of a worker to its first job", "import headrace"]


def test_bare_sqlite_writes_every_row(tmp_path: Path) -> None:
    with closing(RawSqlite(str(tmp_path / "raw.db"))) as raw:
        assert raw.add_one_by_one(3) > 0
    assert (tmp_path / "raw.db").exists()
