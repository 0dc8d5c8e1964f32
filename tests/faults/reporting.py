"""Tasks whose ends are reported: what the workers of `test_end_handlers` run."""

from __future__ import annotations

import os
import signal
from typing import Any

from headrace import Context, Headrace, Job, JobFailed, Reject, Retry
from tests.faults import killing
from tests.faults.shop import note, write_down

app = Headrace()
killing.prepare(app.url)


def report(what: str, job: Job[Any], ctx: Context) -> None:
    """The id of the handler's job stands in the fact, with that of the job that it is about."""
    write_down([f"{what}={ctx.job.id} {job.id} {ctx.attempt} {ctx.fence} {os.getpid()}"])


async def succeeded(job: Job[int], result: int, ctx: Context) -> None:
    report(f"success:{result}", job, ctx)


def died(ctx: Context, job: Job[Any], failure: JobFailed) -> None:
    report(f"dead:{failure.reason}", job, ctx)


@app.task(on_success=succeeded, on_dead=died)
async def good(ctx: Context) -> int:
    note("begin", ctx)
    return 7


@app.task(on_success=succeeded, on_dead=died, retry=Retry(1))
async def bad(ctx: Context) -> int:
    note("begin", ctx)
    raise Reject("no")


@app.task(on_success=succeeded, on_dead=died)
async def fatal(ctx: Context) -> int:
    note("begin", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0
