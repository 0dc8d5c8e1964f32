"""The history while workers are killed: its bounds hold, and no job is both kept and live."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from headrace import State
from headrace.store.values import EndedJob
from tests.faults.crew import Crew, eventually

MOST = 60


async def kept_jobs(crew: Crew) -> list[EndedJob]:
    store = (await crew.app.session()).store
    jobs: list[EndedJob] = []
    cursor, more = "", True
    while more:
        page = await store.history("default", cursor, 25)
        jobs += page.jobs
        cursor, more = page.cursor, bool(page.cursor)
    return jobs


async def watched(crew: Crew) -> None:
    """Look at the history again and again; all that is in it has ended, once."""
    store = (await crew.app.session()).store
    while True:
        page = await store.history("default", "", MOST + 50)
        ids = [job.job_id for job in page.jobs]
        assert len(ids) <= MOST
        assert len(set(ids)) == len(ids)
        seen = await store.get("default", ids)
        # One that is over the bound by now is known by its result.
        assert {each.state for each in seen if each is not None} <= {State.DONE}
        await asyncio.sleep(0.01)


async def test_bounds_hold_and_no_job_is_both_kept_and_live_under_kills(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    rng = random.Random(41)
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        crew.env["HEADRACE_KEEP_DONE"] = str(MOST)
        work = crew.app.tasks["work"]
        sent = await crew.app.enqueue_many(work.call(rng.uniform(0, 0.02)) for _ in range(400))
        crew.start("-c", "8")
        crew.start("-c", "8")
        watching = asyncio.create_task(watched(crew))
        for _ in range(4):
            await eventually("a worker is at work", lambda: crew.at_work)
            await asyncio.sleep(rng.uniform(0.1, 0.4))
            rng.choice(crew.at_work).kill()
            crew.start("-c", "8")
        await crew.ended([job.id for job in sent])
        await crew.idle()
        watching.cancel()
        (trouble,) = await asyncio.gather(watching, return_exceptions=True)
        assert isinstance(trouble, asyncio.CancelledError), trouble
        kept = await kept_jobs(crew)
        assert len({job.job_id for job in kept}) == len(kept) == MOST
        assert {job.task for job in kept} == {"work"}
        assert all(job.worker and job.started_ms and job.envelope for job in kept)
