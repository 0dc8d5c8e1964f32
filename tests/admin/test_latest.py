"""`admin.latest()`: what ended last, in all queues."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Headrace, JobFailed, Reject, State


async def test_ended_jobs_of_all_queues_come_in_the_order_of_their_end(app: Headrace) -> None:
    @app.task
    async def work(text: str) -> None:
        if text == "bad":
            raise Reject

    done: list[str] = []
    dead: list[str] = []
    async with app.worker(queues=["a", "b"]):
        for queue in ("a", "b", "a", "a", "b", "a"):
            sent = work.options(queue=queue)
            job = await sent.enqueue("good")
            await job.result(timeout=20)
            done.insert(0, job.id)
            failing = await sent.enqueue("bad")
            with pytest.raises(JobFailed):
                await failing.result(timeout=20)
            dead.insert(0, failing.id)
            # Ends have whole milliseconds.
            await asyncio.sleep(0.002)
    admin = app.admin
    assert [job.id for job in await admin.latest("done", limit=100)] == done
    assert [job.id for job in await admin.latest(State.DONE, limit=2)] == done[:2]
    assert [job.id for job in await admin.latest("dead", limit=3)] == dead[:3]
    assert await admin.latest("done", task="other") == []
