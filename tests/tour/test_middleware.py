"""Middleware: around what is sent, and around what is run. On every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Call, Context, Headrace, Job, JobFailed, Middleware, Reject
from headrace.middleware import CaptureErrors, JobRun, Proceed, Send


class Tenant(Middleware):
    """Sends along who is asking, and greets them where the job runs."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        return await send(call.with_headers({"tenant": "eu"}))

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        run.args = (f"{run.context.headers['tenant']}-{run.args[0]}", *run.args[1:])
        return f"<{await proceed()}>"


async def test_a_middleware_wraps_sending_and_running(app: Headrace) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    app.middleware(Tenant())
    async with app.worker():
        job = await greet.enqueue("ann")
        assert await job.result(30) == "<hello eu-ann>"
        jobs = await app.enqueue_many(greet.call(name) for name in ("bob", "cyd"))
        assert [await job.result(30) for job in jobs] == ["<hello eu-bob>", "<hello eu-cyd>"]


async def test_jobs_of_schedules_go_through_send_middleware(app: Headrace) -> None:
    seen: dict[str, str] = {}
    both = asyncio.Event()

    @app.every(0.1)
    async def beat(ctx: Context) -> None:
        seen[ctx.job.id] = ctx.headers.get("tenant", "")
        if len(seen) > 1 and any("@" not in id for id in seen):
            both.set()

    class Sender(Middleware):
        async def send(self, call: Call[Any], send: Send) -> Job[Any]:
            return await send(call.with_headers({"tenant": "eu"}))

    app.middleware(Sender())
    async with app.worker(), asyncio.timeout(60):
        job = await app.schedules.run_now("beat")
        assert await job.result() is None
        await both.wait()
    assert set(seen.values()) == {"eu"}


async def test_a_middleware_may_say_what_becomes_of_a_run(app: Headrace) -> None:
    class Doorman(Middleware):
        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            if "admin" not in run.args:
                raise Reject("not for you")
            return await proceed()

    @app.task
    def enter(ctx: Context, name: str) -> int:
        return ctx.attempt

    app.middleware(Doorman())
    async with app.worker():
        assert await (await enter.enqueue("admin")).result(30) == 1
        with pytest.raises(JobFailed, match="not for you") as failed:
            await (await enter.enqueue("guest")).result(30)
    assert failed.value.reason == "rejected"


async def test_errors_reach_the_hook_that_collects_them(app: Headrace) -> None:
    captured: list[BaseException] = []

    @app.task
    async def broken() -> None:
        raise LookupError("nothing there")

    app.middleware(CaptureErrors(captured.append))
    async with app.worker():
        with pytest.raises(JobFailed):
            await (await broken.options(timeout=5).enqueue()).result(30)
    assert [str(error) for error in captured] == ["nothing there"] * 3
