"""Workers that are killed, stopped, blocked or made to kill themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.crew import CALM, Crew
from tests.faults.scenarios import (
    MOMENTS,
    Massacre,
    Moment,
    die_at,
    outlive_a_frozen_worker,
    stop_a_deadly_job,
    survive_massacre,
)


async def test_killed_workers_lose_no_job(lasting_url: str, namespace: str, tmp_path: Path) -> None:
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await survive_massacre(crew, Massacre())


async def test_a_late_outcome_changes_nothing(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, lease=CALM) as crew:
        await outlive_a_frozen_worker(crew, jobs=5)


async def test_a_worker_whose_loop_is_blocked_keeps_its_job(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, lease=CALM) as crew:
        await _block(crew, seconds=2.2 * CALM)


async def _block(crew: Crew, seconds: float) -> None:
    workers = [crew.start(), crew.start()]
    for worker in workers:
        await worker.works()
    job = await crew.app.tasks["rude"].enqueue(seconds)
    assert await job.result(60) == 1
    await crew.idle()
    assert len(crew.runs()[job.id]) == 1
    (blocked,) = [worker for worker in workers if "event loop has been blocked" in worker.log]
    assert "time.sleep(seconds)" in blocked.log
    assert blocked.log.count("event loop has been blocked") == 1
    for worker in workers:
        assert await worker.stopped() == 0
        assert "lost leases" not in worker.log


async def test_a_job_that_kills_its_worker_is_stopped_and_takes_no_other_along(crew: Crew) -> None:
    await stop_a_deadly_job(crew, deadly=1, others=40)


async def test_a_worker_may_die_at_any_moment(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async def die(number: int, moment: Moment) -> None:
        folder = tmp_path / str(number)
        async with Crew(folder, lasting_url, f"{namespace}-{number}") as crew:
            await die_at(crew, moment)

    await asyncio.gather(*(die(number, moment) for number, moment in enumerate(MOMENTS)))


@pytest.mark.parametrize(("moment", "stored"), [("before", 0), ("after", 1)])
async def test_a_sender_may_die_at_any_moment(crew: Crew, moment: str, stored: int) -> None:
    """What was not stored is not there; what was is run once, although nobody was told."""
    sender = crew.run("send", kill=f"append:{moment}")
    assert await sender.ended() == -9
    store = (await crew.app.session()).store
    assert (await store.count("default")).waiting == stored
    crew.start()
    await crew.idle()
    assert len(crew.jobs("end")) == stored


async def test_what_a_killed_sender_had_confirmed_is_there(crew: Crew) -> None:
    for _ in range(3):
        sender = crew.run("send", "1000", "200")
        before = len(crew.jobs("sent"))
        await crew.known("sent", before + 1000)
        sender.kill()
    told = crew.jobs("sent")
    store = (await crew.app.session()).store
    waiting = (await store.count("default")).waiting
    assert waiting >= len(told)
    # A batch is stored as a whole or not at all.
    assert waiting % 200 == 0
    job_ids = [crew.app.job(job_id).job_id for job_id in told]
    # A page at a time: a sender that was killed late has sent more than one call should ask for.
    for first in range(0, len(job_ids), 1000):
        assert None not in await store.get("default", job_ids[first : first + 1000])
