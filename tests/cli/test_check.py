"""`headrace check`: what it finds, what it says to do, and its exit code."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace, JobFailed, Retry
from headrace.admin import StoreInfo
from headrace.cli import main
from headrace.cli.app_command import asked
from headrace.cli.check import of_store
from headrace.cli.logs import without_risks
from tests.cli.conftest import Start
from tests.servers import RedisServer

PROGRAM = """
from headrace import Headrace, Retry

app = Headrace("{url}", namespace="{namespace}")


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="mail", retry=Retry(1))
async def fail() -> None:
    raise ValueError("no")
"""


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


def found(*arguments: str) -> dict[str, Any]:
    result = check(*arguments, "--json")
    document: dict[str, Any] = json.loads(result.output)
    assert result.exit_code == (0 if document["ok"] else 1)
    return document


def texts(document: dict[str, Any], level: str) -> list[str]:
    findings = document["findings"]
    return [f"{each['about']}: {each['text']}" for each in findings if each["level"] == level]


def test_a_file_that_every_user_may_open_is_named(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    file.touch()
    file.chmod(0o666)
    (warning,) = texts(found("--url", f"sqlite:///{file}"), "warning")
    assert warning.startswith(f"store: {file} has the mode 0666: every user of this machine can")
    file.chmod(0o600)
    assert texts(found("--url", f"sqlite:///{file}"), "warning") == []


class Scene:
    """An app on a Redis that is only checked from outside."""

    def __init__(self, url: str, namespace: str) -> None:
        self.options = ("--url", url, "--namespace", namespace)
        self.app = Headrace(url, namespace=namespace)

        @self.app.task
        async def add(a: int, b: int) -> int:
            return a + b

        @self.app.task(queue="mail", retry=Retry(1))
        async def fail() -> None:
            raise ValueError("no")

        self.add, self.fail = add, fail

    def do(self, action: Callable[[], Awaitable[object]]) -> None:
        async def done() -> None:
            async with self.app:
                await action()

        asyncio.run(done())

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with self.app, self.app.worker():
            yield


@pytest.fixture
def scene(redis_url: str, namespace: str) -> Scene:
    return Scene(redis_url, namespace)


def test_an_empty_store_is_well_and_its_version_shown(scene: Scene) -> None:
    result = check(*scene.options)
    assert result.exit_code == 0
    assert result.output.startswith("ok       store: ")
    assert " answers in " in result.output
    assert "appendonly is off" in result.output


def test_jobs_that_nobody_reads_are_a_problem_with_a_remedy(scene: Scene) -> None:
    scene.do(lambda: scene.add.enqueue(1, 2))
    result = check(*scene.options)
    assert result.exit_code == 1
    problem = (
        "queue default: 1 job waiting and no worker reads it: run the app that has it: "
        "headrace worker APP, for this queue alone with -Q default"
    )
    assert f"problem  {problem}\n" in result.output
    assert result.output.endswith("1 problem, 1 warning\n")


async def test_a_queue_that_is_read_is_well(scene: Scene) -> None:
    async with scene.working():
        with pytest.raises(JobFailed):
            await (await scene.fail.enqueue()).result(30)
        await scene.app.admin.pause("default", "add")
        document = await asyncio.to_thread(found, *scene.options)
    assert document["ok"]
    warnings = texts(document, "warning")[1:]
    assert warnings == [
        "queue default: task add is paused: headrace queues resume default --task add",
        "queue mail: 1 dead job: headrace dead list --queue mail",
    ]


async def test_a_job_that_waits_too_long_is_a_problem(scene: Scene) -> None:
    go = asyncio.Event()

    @scene.app.task(queue="slow")
    async def hold() -> None:
        await go.wait()

    async with scene.app, scene.app.worker(concurrency=1):
        await scene.app.enqueue_many([hold.call(), hold.call(), hold.call()])
        document = await asyncio.to_thread(found, *scene.options, "--max-age", "0")
        patient = await asyncio.to_thread(found, *scene.options)
        go.set()
    (problem,) = texts(document, "problem")
    assert problem.startswith("queue slow: a job has waited for ")
    assert patient["ok"]


def test_a_paused_queue_and_schedule_are_named(scene: Scene) -> None:
    async def pause() -> None:
        await scene.app.admin.pause("mail")
        await scene.app.schedules.upsert("nightly", scene.add.call(1, 2), cron="0 3 * * *")
        await scene.app.schedules.pause("nightly")

    scene.do(pause)
    warnings = texts(found(*scene.options), "warning")
    assert "queue mail: paused: headrace queues resume mail" in warnings
    assert "schedule nightly: paused: headrace schedules resume nightly" in warnings


def test_queues_of_the_app_need_a_worker(redis_url: str, namespace: str, shop: Path) -> None:
    (shop / "checked.py").write_text(PROGRAM.format(url=redis_url, namespace=namespace))
    document = found("checked:app")
    assert document["ok"]
    assert texts(document, "warning")[1:] == [
        f"queue {name}: no worker reads it: run headrace worker checked:app"
        for name in ("default", "mail")
    ]


def test_a_store_that_is_away_is_a_problem(redis_server: RedisServer) -> None:
    redis_server.stop()
    document = found("--url", redis_server.url)
    (problem,) = texts(document, "problem")
    assert problem.startswith("store: Redis cannot be reached")
    assert problem.endswith("start it, or name another with --url")


def test_a_clock_that_is_off_is_reported() -> None:
    ahead = StoreInfo("Redis", "7.0.0", "redis://x", "shop", (), 0.001, 3.25)
    (clock,) = (finding for finding in of_store(ahead) if finding.about == "clock")
    assert clock.text.startswith("the store's clock is 3.2 s ahead of this one")


def test_only_workers_and_check_warn_of_the_settings_of_the_store(
    start: Start, redis_url: str, namespace: str
) -> None:
    store = ("--url", redis_url, "--namespace", namespace)
    said = {}
    for words in (
        ("check", *store),
        ("queues", *store),
        ("queues", "pause", "mail", "--force", *store),
        ("worker", "shop:app", "--burst"),
    ):
        program = start(*words, HEADRACE_URL=redis_url)
        assert program.ended() == 0, program.output
        said[words[0], len(words)] = program.output.count("appendonly is off")
    assert list(said.values()) == [1, 0, 0, 1]


def test_asking_drops_no_other_warning_of_the_store(
    redis_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace(redis_url, namespace=namespace)
    asked(app, lambda app: app.admin.queues())
    assert not caplog.records
    with without_risks():
        logging.getLogger("headrace.store").warning("another %s", "one")
    assert [record.getMessage() for record in caplog.records] == ["another one"]
