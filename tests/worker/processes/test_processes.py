"""Tasks in processes of their own: they can be killed, and harm only themselves."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import (
    Context,
    Defer,
    Headrace,
    JobFailed,
    Reject,
    ResultLost,
    Retry,
    RetryLater,
    TaskCancelled,
)
from headrace.web.auth import secret
from tests.worker.states import until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://")
ONCE = Retry(1)


@app.task(run_in="process", retry=ONCE)
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(run_in="process", retry=ONCE, timeout=3.0)
def endless(note: str) -> None:
    Path(note).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)


@app.task(run_in="process", retry=ONCE, timeout=0.4)
def last_words(what: str) -> str:
    try:
        time.sleep(60)
    except TaskCancelled:
        if not what:
            raise Reject("too much") from None
    return what


@app.task(run_in="process", retry=ONCE, timeout=0.4)
def quick() -> int:
    return 7


@app.task(run_in="process", retry=ONCE)
def variables() -> list[str]:
    return list(os.environ)


@app.task(run_in="process", retry=ONCE)
def leaves() -> None:
    os._exit(7)


@app.task(run_in="process", retry=ONCE)
def exits() -> None:
    sys.exit("enough")


@app.task(run_in="process", retry=Retry(2, base=0.01))
def killed_once(ctx: Context) -> int:
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@app.task(run_in="process", retry=Retry(3, base=0.01, on=(LookupError,)))
def picky(ctx: Context) -> int:
    if ctx.attempt < 3:
        raise KeyError("a LookupError, by its name")
    raise ValueError("not one")


@app.task(run_in="process", retry=Retry(2, base=100))
def controlled(ctx: Context, how: str) -> int:
    if how == "reject":
        raise Reject("no thanks")
    if how == "later" and ctx.attempt == 1:
        raise RetryLater(0.01)
    if how == "defer" and ctx.fence == 1:
        raise Defer(0.01)
    return ctx.attempt


@app.task(run_in="process", retry=ONCE)
def unsendable() -> object:
    return lambda: None


@app.task(run_in="process", retry=ONCE, strict_result=True)
def strict() -> object:
    return lambda: None


@app.task(run_in="process")
def who(ctx: Context) -> tuple[str, str, bool, dict[str, str]]:
    return ctx.job.id, ctx.worker, ctx.deadline is not None, dict(ctx.headers)


@pytest.fixture
async def worker_name() -> AsyncIterator[str]:
    async with app, app.worker(processes=2) as worker:
        yield worker.name


async def failure_of(job_id: str) -> JobFailed:
    with pytest.raises(JobFailed) as failed:
        await app.job(job_id).result(60)
    return failed.value


@pytest.mark.usefixtures("worker_name")
async def test_arguments_and_results_cross_over() -> None:
    assert await (await total.enqueue(list(range(100)))).result(60) == 4950


async def test_the_context_crosses_over(worker_name: str) -> None:
    job = await who.options(headers={"tenant": "eu"}).enqueue()
    assert await job.result(60) == (job.id, worker_name, True, {"tenant": "eu"})


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_run_whose_process_died_is_an_attempt_like_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "headrace.worker")
    async with app, app.worker(processes=1):
        job = await leaves.options(retry=Retry(2, base=0.01)).enqueue()
        await failure_of(job.id)
    assert f"leaves {job.id} failed, attempt 1 of 2, next try" in caplog.text
    assert f"leaves {job.id} is dead (retries_exhausted) after attempt 2 of 2: " in caplog.text
    assert "; 2 failed attempts, 1 dead" in caplog.text


@pytest.mark.usefixtures("worker_name")
async def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    job = await endless.enqueue(str(tmp_path / "pid"))
    failed = await failure_of(job.id)
    assert failed.error_type == "TimeoutError"
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not is_alive(pid))


@pytest.mark.usefixtures("worker_name")
async def test_what_a_function_in_a_process_says_at_its_timeout_counts() -> None:
    assert await (await last_words.enqueue("nearly done")).result(60) == "nearly done"
    failed = await failure_of((await last_words.enqueue("")).id)
    assert (failed.error_type, failed.error_text) == ("headrace.errors.Reject", "too much")


@pytest.mark.usefixtures("worker_name")
async def test_the_start_of_a_process_is_not_the_time_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an interpreter takes to start, here a second more."""
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert await (await quick.enqueue()).result(60) == 7


async def test_a_process_does_not_have_the_variables_of_the_dashboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = [name for name in vars(secret).values() if str(name).startswith("HEADRACE_")]
    assert len(secrets) == 2
    for name in (*secrets, "HEADRACE_DASHBOARD_AUTH", "SHOP_OWN_VARIABLE"):
        monkeypatch.setenv(name, "a secret of others")
    async with app, app.worker(processes=1):
        seen = await (await variables.enqueue()).result(60)
    assert "SHOP_OWN_VARIABLE" in seen
    assert not any(name.startswith("HEADRACE_DASHBOARD") for name in seen)
    assert "HEADRACE_DASHBOARD_AUTH" in os.environ, "a dashboard in this process may need it"


@pytest.mark.usefixtures("worker_name")
async def test_a_process_that_ends_fails_its_job_alone() -> None:
    failed = await failure_of((await leaves.enqueue()).id)
    assert failed.error_type == "headrace.errors.ProcessDied"
    assert "exit code 7" in failed.error_text
    assert await (await total.enqueue([1, 2])).result(60) == 3


@pytest.mark.usefixtures("worker_name")
async def test_sys_exit_is_an_error_like_any_other() -> None:
    failed = await failure_of((await exits.enqueue()).id)
    assert (failed.error_type, failed.error_text) == ("SystemExit", "enough")


@pytest.mark.usefixtures("worker_name")
async def test_a_killed_process_is_a_failed_attempt() -> None:
    assert await (await killed_once.enqueue()).result(60) == 2


@pytest.mark.usefixtures("worker_name")
async def test_a_retry_policy_knows_errors_of_another_process() -> None:
    failed = await failure_of((await picky.enqueue()).id)
    assert (failed.reason, failed.error_type) == ("not_retryable", "ValueError")
    assert "in picky" in failed.traceback


@pytest.mark.usefixtures("worker_name")
async def test_task_control_works_across_processes() -> None:
    assert await (await controlled.enqueue("later")).result(60) == 2
    assert await (await controlled.enqueue("defer")).result(60) == 1
    assert (await failure_of((await controlled.enqueue("reject")).id)).reason == "rejected"


@pytest.mark.usefixtures("worker_name")
async def test_a_result_that_cannot_travel_is_lost_and_not_its_work() -> None:
    job = await unsendable.enqueue()
    with pytest.raises(ResultLost, match="returned a function") as lost:
        await job.result(60)
    assert lost.value.shown.startswith("<function unsendable")
    assert (await job.info()).lost_result == lost.value.shown
    assert (await failure_of((await strict.enqueue()).id)).reason == "bad_result"
