"""`on_success` and `on_dead` are called although workers are killed, and one job is sent for each
end."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Job, JobFailed
from tests.faults.crew import LONG, Crew, eventually

_APP = "tests.faults.reporting:app"


async def sent(crew: Crew, task: str) -> Job[Any]:
    async def run() -> int:
        return 0

    return await crew.app.task(name=task)(run).enqueue()


def reports(crew: Crew, job: Job[Any], what: str) -> set[str]:
    """The jobs of handlers that ran for this one."""
    return {
        fact.what for fact in crew.facts if fact.job == job.id and fact.what.startswith(f"{what}=")
    }


async def killed_at(crew: Crew, moment: str) -> None:
    assert await crew.start(kill=moment, app=_APP).ended() == -9


@pytest.mark.parametrize(
    "moment", ["append:before", "append:after", "settle:before", "settle:after"]
)
async def test_on_success_is_called_whenever_its_worker_dies(crew: Crew, moment: str) -> None:
    job = await sent(crew, "good")
    await killed_at(crew, moment)
    crew.start(app=_APP)
    assert await job.result(LONG) == 7
    await eventually("it is reported", lambda: reports(crew, job, "success:7"))
    await crew.idle()
    assert len(reports(crew, job, "success:7")) == 1
    assert not await crew.dead()


@pytest.mark.parametrize(
    "moment",
    [
        "settle:before",
        "settle:after",
        "append:before",
        "append:after",
        "cursor:before",
        "cursor:after",
    ],
)
async def test_on_dead_is_called_whenever_its_worker_dies(crew: Crew, moment: str) -> None:
    job = await sent(crew, "bad")
    await killed_at(crew, moment)
    crew.start(app=_APP)
    with pytest.raises(JobFailed):
        await job.result(LONG)
    await eventually("it is reported", lambda: reports(crew, job, "dead:rejected"))
    await crew.idle()
    assert len(reports(crew, job, "dead:rejected")) == 1
    assert list(await crew.dead()) == [job.id]


async def test_on_dead_is_called_for_a_job_that_killed_its_workers(crew: Crew) -> None:
    job = await sent(crew, "fatal")
    for _ in range(3):
        assert await crew.start(app=_APP).ended() == -9
    crew.start(app=_APP)
    await eventually("it is reported", lambda: reports(crew, job, "dead:crash_loop"))
    await crew.idle()
    assert len(reports(crew, job, "dead:crash_loop")) == 1
