"""Handlers that end in every wrong way; each gives an outcome, and the worker goes on."""

from __future__ import annotations

import pytest

from headrace import JobFailed, Retry
from tests.faults.crew import LONG, Crew, eventually, is_alive
from tests.faults.endings import ENDINGS


@pytest.mark.parametrize("kind", ["loop", "thread", "process"])
async def test_a_handler_may_end_as_it_likes(crew: Crew, kind: str) -> None:
    worker = crew.start("--processes", "1")
    tasks = crew.app.tasks
    jobs = {ending: await tasks[f"end_in_{kind}"].enqueue(ending) for ending in ENDINGS}
    for ending, job in jobs.items():
        with pytest.raises(JobFailed) as failed:
            await job.result(LONG)
        expected = ENDINGS[ending]
        assert failed.value.reason == expected.reason, ending
        assert failed.value.error_type.endswith(expected.error_type), ending
        assert failed.value.traceback, ending
        assert len(crew.runs()[job.id]) == 2, ending
    after = await tasks["work"].enqueue(0.0)
    assert await after.result(LONG) == 1
    assert await worker.stopped() == 0


async def test_a_task_process_that_ends_is_replaced(crew: Crew) -> None:
    worker = crew.start("--processes", "1")
    tasks = crew.app.tasks
    exiting = await tasks["exit_process"].enqueue(7)
    killed = await tasks["kill_process"].enqueue()
    await worker.works()
    assert (await exiting.result(LONG), await killed.result(LONG)) == (2, 2)
    assert [fact.attempt for fact in crew.runs()[exiting.id]] == [1, 2]
    assert [fact.attempt for fact in crew.runs()[killed.id]] == [1, 2]
    assert await worker.stopped() == 0


async def test_a_task_process_that_always_ends_is_reported(crew: Crew) -> None:
    crew.start("--processes", "1")
    task = crew.app.tasks["exit_process"].options(retry=Retry(1))
    with pytest.raises(JobFailed) as failed:
        await (await task.enqueue(7)).result(LONG)
    assert failed.value.error_type == "headrace.errors.ProcessDied"
    assert "exit code 7" in failed.value.error_text


@pytest.mark.parametrize("kind", ["loop", "thread", "process"])
async def test_a_fork_that_comes_back_is_not_a_second_worker(crew: Crew, kind: str) -> None:
    """The parent's answer counts; the child ends and disturbs nobody."""
    worker = crew.start("--processes", "1", "-c", "1")
    await worker.works()
    tasks = crew.app.tasks
    for _ in range(3):
        job = await tasks[f"fork_in_{kind}"].enqueue()
        assert await job.result(LONG) == 1
        for number in (10, 20):
            after = await tasks["echo_in_process"].enqueue(number)
            assert await after.result(LONG) == number
    await eventually("the forks are there", lambda: len(crew.jobs("forked")) == 3)
    await eventually("the forks are gone", lambda: not _forks(crew), within=20)
    assert {len(begun) for begun in crew.runs().values()} == {1}
    assert await worker.stopped() == 0


def _forks(crew: Crew) -> list[int]:
    pids = [fact.pid for fact in crew.facts if fact.what == "forked"]
    return [pid for pid in pids if is_alive(pid)]
