"""The life of a task process: set up once, replaced after some jobs, cleaned up when it leaves."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import ConfigError, Context, Headrace, JobFailed, Retry
from headrace.worker.processes import task_process
from tests.worker.processes.pool_tasks import AwaitedPool, hold, note, notes_in
from tests.worker.states import until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://")
FOLDER = "HEADRACE_TEST_FOLDER"


@app.process_lifespan
def model(declared: Headrace) -> Iterator[dict[str, int]]:
    folder = Path(os.environ[FOLDER])
    if (folder / "broken").exists():
        raise LookupError("no model")
    if (folder / "slow").exists():
        time.sleep(1.2)
    _add_line(folder / "set-up")
    yield {"pid": os.getpid(), "tasks": len(declared.tasks)}
    _add_line(folder / "cleaned-up")
    if (folder / "stuck").exists():
        time.sleep(600)


def _add_line(file: Path) -> None:
    with file.open("a") as lines:
        lines.write(f"{os.getpid()}\n")


@app.task(run_in="process", retry=Retry(1), timeout=1)
def predict(ctx: Context, text: str) -> tuple[int, str]:
    assert ctx.state["tasks"] == 1
    return ctx.state["pid"], text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def lines_of(file: Path) -> list[int]:
    return list(map(int, file.read_text().split())) if file.exists() else []


async def test_each_process_is_set_up_replaced_and_cleaned_up_and_no_job_is_lost(
    folder: Path,
) -> None:
    async with app:
        async with app.worker(processes=1, max_jobs_per_process=2):
            jobs = await app.enqueue_many(predict.call(str(n)) for n in range(3))
            results = [await job.result(60) for job in jobs]
        infos = [await job.info() for job in jobs]
    assert [text for _, text in results] == list(map(str, range(3)))
    assert {info.attempt for info in infos} == {1}
    by_process = Counter(pid for pid, _ in results)
    assert sorted(by_process.values()) == [1, 2]
    set_up = lines_of(folder / "set-up")
    assert sorted(set_up) == sorted(by_process), "once in each"
    # Also those that were still there when the worker stopped.
    assert sorted(lines_of(folder / "cleaned-up")) == sorted(set_up)


async def test_a_set_up_that_fails_fails_the_job_and_its_time_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_process, "_LEAVING", 0.2)
    (folder / "broken").touch()
    async with app, app.worker(processes=1):
        with pytest.raises(JobFailed, match="no model") as failed:
            await (await predict.enqueue("a")).result(60)
        assert failed.value.error_type == "LookupError"
        # Longer than the task may take.
        (folder / "broken").rename(folder / "slow")
        assert (await (await predict.enqueue("b")).result(60))[1] == "b"
        # A clean-up that does not end does not keep the worker.
        (folder / "stuck").touch()
    assert lines_of(folder / "cleaned-up")


async def test_a_process_is_given_no_more_than_it_may_run(tmp_path: Path) -> None:
    pool = AwaitedPool(1, max_jobs=3)
    first = await pool.end_of(pool.start(note.call(str(tmp_path), "0")))
    held = pool.start(hold.call(str(tmp_path)))
    await until((tmp_path / "gate-pid").exists)
    assert pool.capacity() == 1, "one more behind the run at hand, and none after that"
    runs = [pool.start(note.call(str(tmp_path), what)) for what in "123"]
    (tmp_path / "gate").touch()
    ends = [await pool.end_of(run) for run in (held, *runs)]
    assert [end == first for end in ends] == [True, True, False, False]
    assert ends[2] == ends[3]
    assert notes_in(tmp_path) == list("0123")
    assert pool.free == 1
    await pool.close()


def test_an_app_has_one_and_a_worker_a_count() -> None:
    app = Headrace("memory://")
    app.queue("mail")

    @app.process_lifespan(timeout=300)
    def first() -> Iterator[None]:
        yield

    with pytest.raises(ConfigError, match="already"):
        app.process_lifespan(first)
    with pytest.raises(ConfigError, match="max_jobs_per_process"):
        app.worker(queues=["mail"], max_jobs_per_process=0)
