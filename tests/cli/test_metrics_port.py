"""`headrace worker --metrics-port`: one process, and several under a supervisor."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import Call, Headrace
from tests.cli.conftest import Start
from tests.cli.programs import Program, eventually
from tests.exposition.scraping import Scrape, health, scraped

PROGRAM = """
import asyncio
import os
from pathlib import Path

from headrace import Headrace, Retry

app = Headrace(lease=float(os.environ.get("LEASE", "60")))


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="mail", retry=Retry(2, base=0.01))
async def fail() -> None:
    raise ValueError("no")


@app.task
async def hold(name: str) -> None:
    Path(name).write_text(str(os.getpid()))
    while not Path(f"{name}-go").exists():
        await asyncio.sleep(0.02)
"""


@pytest.fixture
def settings(
    shop: Path, redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Those of the program, for this process too."""
    (shop / "counted.py").write_text(PROGRAM)
    found = {"HEADRACE_URL": redis_url, "HEADRACE_NAMESPACE": namespace}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def app(settings: dict[str, str], shop: Path) -> Headrace:
    """The program's own, to send from here."""
    loaded: dict[str, Headrace] = runpy.run_path(str(shop / "counted.py"))
    return loaded["app"]


def send(app: Headrace, task: str, *arguments: tuple[object, ...]) -> None:
    """A job for each."""
    asyncio.run(_sent(app, [app.tasks[task].call(*each) for each in arguments]))


async def _sent(app: Headrace, calls: Sequence[Call[Any]]) -> None:
    async with app:
        await app.enqueue_many(calls)


def address(program: Program) -> str:
    program.says("metrics are at ")
    found = re.search(r"metrics are at (http://\S+)/metrics", program.output)
    assert found
    return found[1]


def jobs(scrape: Scrape, outcome: str) -> float:
    return scrape.total("headrace_jobs_total", outcome=outcome)


def done(base: str, task: str) -> float:
    return scraped(base).total("headrace_jobs_total", outcome="done", task=task)


def dead_in_store(base: str, queue: str) -> float | None:
    return scraped(base).value("headrace_queue_jobs", queue=queue, state="dead")


def eventually_done(base: str, task: str, count: int) -> None:
    eventually(f"{count} jobs are counted", lambda: done(base, task) >= count)


def two_processes(start: Start, settings: dict[str, str], **more: str) -> tuple[Program, str]:
    """A parent with two workers, and where it serves."""
    worker = start(
        "worker", "counted:app", "-p", "2", "-c", "10", "--metrics-port", "0", **settings, **more
    )
    base = address(worker)
    worker.says("runs default", times=2)
    return worker, base


def test_several_processes_are_one_sum(
    app: Headrace, settings: dict[str, str], start: Start
) -> None:
    worker, base = two_processes(start, settings)
    send(app, "add", *((i, i) for i in range(300)))
    send(app, "fail", *([()] * 5))
    eventually_done(base, "add", 300)
    eventually("failures are counted", lambda: jobs(scraped(base), "dead") == 5)
    # The store is asked every few seconds, however often the page is.
    eventually("dead jobs are found in the store", lambda: dead_in_store(base, "mail") == 5)
    found = scraped(base)
    assert jobs(found, "done") == 300
    assert jobs(found, "retry") == 5
    assert found.total("headrace_job_run_seconds_count", task="fail") == 10
    assert found.total("headrace_job_wait_seconds_count", queue="default") == 300
    assert found.value("headrace_slots") == 20
    assert found.value("headrace_worker_processes") == 2
    assert found.value("headrace_store_up") == 1
    assert health(f"{base}/readyz") == (200, {"ok": True, "reasons": []})
    folder = folder_of(worker)
    assert folder.is_dir()
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert not folder.exists()


def test_what_a_killed_process_had_counted_is_kept(
    app: Headrace, settings: dict[str, str], start: Start, shop: Path
) -> None:
    # A short lease, so that what it held is soon taken over; more may be, on a slow machine.
    worker, base = two_processes(start, settings, LEASE="1")
    send(app, "add", *((i, i) for i in range(300)))
    eventually_done(base, "add", 300)
    send(app, "hold", ("held",))
    held = shop / "held"
    eventually("it runs", lambda: held.exists() and held.read_text())
    eventually("it is seen to run", lambda: scraped(base).value("headrace_jobs_running") == 1)
    os.kill(int(held.read_text()), signal.SIGKILL)
    (shop / "held-go").touch()
    eventually("it was replaced", lambda: len(worker.children) == 3)
    eventually_done(base, "hold", 1)
    assert done(base, "add") >= 300
    send(app, "add", *((i, i) for i in range(100)))
    eventually_done(base, "add", 400)
    found = scraped(base)
    assert found.total("headrace_redeliveries_total", queue="default") >= 1
    assert found.value("headrace_worker_deaths_total") == 1
    eventually("all is settled", lambda: scraped(base).value("headrace_jobs_running") == 0)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def folder_of(worker: Program) -> Path:
    """Where the processes of a supervisor write."""
    for pid in worker.children:
        variables = Path(f"/proc/{pid}/environ")
        if variables.exists():
            found = re.search(rb"HEADRACE_METRICS_DIR=([^\0]+)", variables.read_bytes())
            if found:
                return Path(found[1].decode())
    raise AssertionError("no process has a folder")


def test_one_process_serves_itself_and_says_that_it_stops(
    app: Headrace, settings: dict[str, str], start: Start, shop: Path
) -> None:
    worker = start("worker", "counted:app", "--metrics-port", "0", **settings)
    base = address(worker)
    assert base.startswith("http://127.0.0.1:")
    worker.says("runs default")
    send(app, "add", (1, 2))
    send(app, "hold", ("held",))
    eventually_done(base, "add", 1)
    eventually("it holds one", lambda: scraped(base).value("headrace_jobs_running") == 1)
    assert health(f"{base}/readyz")[0] == 200
    worker.send(signal.SIGTERM)
    eventually("it is not ready", lambda: health(f"{base}/readyz")[0] == 503)
    assert health(f"{base}/readyz")[1]["reasons"] == [
        "the worker is stopping and takes no more jobs"
    ]
    assert health(f"{base}/healthz")[0] == 200
    (shop / "held-go").touch()
    assert worker.ended() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_that_is_taken_is_reported_before_work_begins(
    settings: dict[str, str], start: Start, processes: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        worker = start("worker", "counted:app", "-p", processes, "--metrics-port", port, **settings)
        assert worker.ended() == 2
    assert f"headrace: cannot serve on port {port} of 127.0.0.1" in worker.output
    assert "runs default" not in worker.output


def test_a_host_alone_is_refused(settings: dict[str, str], start: Start) -> None:
    worker = start("worker", "counted:app", "--metrics-host", "0.0.0.0", **settings)
    assert worker.ended() == 2
    assert "--metrics-host is of no use without --metrics-port" in worker.output
