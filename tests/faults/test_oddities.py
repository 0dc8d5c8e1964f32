"""Odd handlers by the hundred: each ends, those that fail with a reason, and the worker goes on."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from headrace import JobFailed, ResultLost, ResultTimeout
from tests.faults.crew import LONG, Crew
from tests.faults.oddities import EFFECTS, ODD, RAISED, RETURNED


@pytest.mark.parametrize("kind", ["loop", "thread", "process"])
async def test_odd_handlers_end_with_a_reason_and_the_worker_goes_on(
    tmp_path: Path, namespace: str, kind: str
) -> None:
    async with Crew(tmp_path, f"sqlite:///{tmp_path}/jobs.db", namespace, lease=30.0) as crew:
        worker = crew.start("--processes", "1", "--drain", "5")
        tasks = crew.app.tasks
        jobs = {name: await tasks[f"odd_in_{kind}"].enqueue(name) for name in ODD}
        waiting = (job.result(LONG) for job in jobs.values())
        ends = dict(zip(jobs, await asyncio.gather(*waiting, return_exceptions=True), strict=True))
        assert [name for name, end in ends.items() if isinstance(end, ResultTimeout)] == []
        reasons = {name: end.reason for name, end in ends.items() if isinstance(end, JobFailed)}
        assert {name: reasons.get(name) for name in RAISED} == dict.fromkeys(
            RAISED, "retries_exhausted"
        )
        assert {name: type(ends[name]) for name in RETURNED} == dict.fromkeys(RETURNED, ResultLost)
        assert {reasons[name] for name in EFFECTS if name in reasons} <= {"retries_exhausted"}
        assert {len(begun) for begun in crew.runs().values()} == {1}
        after = await tasks["work"].enqueue(0.0)
        assert await after.result(LONG) == 1
        worker.send(signal.SIGTERM)
        # What a handler left behind and cannot be stopped is cut short.
        assert await worker.ended() in (0, 3)
