"""A task process that hangs before its first job: its worker says so, ends it, and can stop."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Context, Headrace, JobFailed, Retry, State, Task
from headrace.worker import shared_services
from headrace.worker.processes import task_process
from tests.worker.states import reach, until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://")
FOLDER = "HEADRACE_TEST_HANGING"
HERE = os.getpid()


def hang_if(what: str) -> None:
    """Hang if a test asks for it; only once, so that another process goes on."""
    folder = Path(os.environ.get(FOLDER, "/nowhere"))
    if (folder / what).exists():
        (folder / what).rename(folder / f"{what}-hangs")
        time.sleep(600)


hang_if("import")


@app.process_lifespan(timeout=1)
def load_model() -> Iterator[str]:
    hang_if("set-up")
    yield "a model"


@app.task(run_in="process", retry=Retry(1), timeout=0.2)
def timed(ctx: Context) -> str:
    return str(ctx.state)


@app.task(run_in="process", retry=Retry(1), timeout=None)
def untimed(ctx: Context) -> str:
    return str(ctx.state)


@app.task(run_in="process", retry=Retry(1), timeout=0.2, concurrency=1)
def limited(ctx: Context) -> str:
    return str(ctx.state)


@app.task(run_in="process", retry=Retry(2, base=0), timeout=None)
def twice(ctx: Context) -> str:
    return f"attempt {ctx.attempt} with {ctx.state}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [
        record
        for record in caplog.records
        if record.levelno == logging.WARNING and "has not ended" in record.getMessage()
    ]


@pytest.mark.parametrize("task", [timed, untimed, limited], ids=lambda task: task.name)
async def test_a_set_up_that_hangs_is_reported_and_ended_and_the_job_fails_with_its_name(
    folder: Path, caplog: pytest.LogCaptureFixture, task: Task[[], Any]
) -> None:
    (folder / "set-up").touch()
    async with app, app.worker(processes=1):
        job = await task.enqueue()
        with pytest.raises(JobFailed, match=r"process_lifespan, .*load_model") as failed:
            await job.result(60)
        assert failed.value.error_type == "headrace.errors.ProcessDied"
        assert await (await task.enqueue()).result(60) == "a model", "in another process"
    (warning,) = warnings_in(caplog)
    assert warning.name == "headrace.worker"
    assert f"{__name__}.load_model" in warning.getMessage()
    fields = warning.__dict__
    assert (fields["task"], fields["job"]) == (task.name, job.id)
    assert fields["process_lifespan"] == f"{__name__}.load_model"
    assert fields["pid"] != HERE
    assert fields["timeout"] == 1.0


async def test_a_set_up_that_hangs_costs_one_attempt(folder: Path) -> None:
    (folder / "set-up").touch()
    async with app, app.worker(processes=1):
        job = await twice.enqueue()
        assert await job.result(60) == "attempt 2 with a model"
        (first, *_) = (await job.info()).attempts
    assert "load_model" in first.error


async def test_an_import_that_hangs_is_reported_and_ended_too(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_services, "START_TIMEOUT", 1.0)
    (folder / "import").touch()
    async with app, app.worker(processes=1):
        with pytest.raises(JobFailed, match=f"import of {__name__}") as failed:
            await (await untimed.enqueue()).result(60)
    assert failed.value.error_type == "headrace.errors.ProcessDied"
    (warning,) = warnings_in(caplog)
    assert f"import of {__name__}" in warning.getMessage()
    assert "process_lifespan" not in warning.__dict__


async def test_a_process_that_does_not_even_start_is_ended_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_process, "_STARTING", 0.0)
    async with app, app.worker(processes=1):
        with pytest.raises(JobFailed, match="did not start within") as failed:
            await (await untimed.enqueue()).result(60)
    assert failed.value.error_type == "headrace.errors.ProcessDied"


@pytest.mark.parametrize("task", [untimed, limited], ids=lambda task: task.name)
async def test_a_worker_that_is_stopped_while_a_set_up_hangs_hands_the_job_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, task: Task[[], Any]
) -> None:
    declared = app.process_lifespan_declared
    assert declared is not None
    monkeypatch.setattr(app, "process_lifespan_declared", declared._replace(timeout=600.0))
    (folder / "set-up").touch()
    async with app:
        async with app.worker(processes=1, drain=0.1):
            job = await task.enqueue()
            await until((folder / "set-up-hangs").exists)
        assert await reach([job], State.WAITING)
        assert (await job.info()).attempt == 1, "it costs no attempt"
        async with app.worker(processes=1):
            assert await job.result(60) == "a model"


async def test_a_job_that_is_cancelled_while_its_set_up_hangs_is_cancelled(folder: Path) -> None:
    (folder / "set-up").touch()
    async with app, app.worker(processes=1):
        job = await untimed.enqueue()
        await until((folder / "set-up-hangs").exists)
        await job.cancel()
        assert await reach([job], State.CANCELLED)
