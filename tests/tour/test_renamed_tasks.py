"""A task gets another name, and its arguments change, while jobs wait: on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, Reject, Retry, WorkerEvent
from tests.tour.programs import other_program


async def test_jobs_under_the_old_name_run_the_renamed_task(app: Headrace) -> None:
    newer = await other_program(app)
    reported: asyncio.Queue[str] = asyncio.Queue()
    heard: asyncio.Queue[str] = asyncio.Queue()

    @app.task(name="send", unique=True, concurrency=1)
    async def send(mail: str, template: str) -> str:
        return ""

    async def apologise(job: Job[Any]) -> None:
        await reported.put(job.id)

    @newer.task(
        aliases=["send"],
        unique=True,
        concurrency=1,
        retry=Retry(1),
        on_dead=apologise,
        unknown_arguments="ignore",
        renamed_arguments={"mail": "to"},
    )
    async def send_mail(to: str, language: str = "en") -> str:
        if to == "nobody":
            raise Reject("there is no such person")
        return f"{to}: {language}"

    @newer.on("dead", task=send_mail)
    async def listen(event: WorkerEvent) -> None:
        await heard.put(event.task)

    async with newer:
        ann = await send.enqueue("ann", "hello")
        bob = await send_mail.enqueue("bob")
        nobody = await send.enqueue("nobody", "hello")
        listed = await newer.admin.jobs("default", task="send_mail")
        assert {job.id for job in listed.jobs} == {ann.id, bob.id, nobody.id}
        # Lanes are those of the old name, so that both versions together run one at a time.
        assert (await newer.admin.job(bob.id)).lane == (await newer.admin.job(ann.id)).lane
        await newer.admin.pause("default", "send_mail")
        assert set((await newer.admin.queue("default")).paused_tasks) == {"send", "send_mail"}
        await newer.admin.resume("default", "send_mail")
        async with newer.worker():
            assert await ann.result(30) == "ann: en"
            assert await bob.result(30) == "bob: en"
            with pytest.raises(JobFailed, match="no such person"):
                await nobody.result(30)
            assert await asyncio.wait_for(reported.get(), 30) == nobody.id
            assert await asyncio.wait_for(heard.get(), 30) == "send"
        (dead,) = await newer.admin.dead(task="send_mail")
        assert (dead.id, dead.task) == (nobody.id, "send")


async def test_a_schedule_of_the_old_name_runs_the_renamed_task(app: Headrace) -> None:
    newer = await other_program(app)

    @app.task(name="report")
    async def report(day: str) -> str:
        return ""

    @newer.task(aliases=["report"], run_in="thread")
    def daily_report(day: str) -> str:
        return f"report of {day}"

    async with newer:
        await app.schedules.upsert("reports", report.call("Monday"), every=3600)
        job = await newer.schedules.run_now("reports")
        async with newer.worker(schedules=False):
            assert await job.result(30) == "report of Monday"
