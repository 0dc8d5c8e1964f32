"""Jobs with tags, and the filter by them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Retry, State, chain
from headrace.core.bounds import MAX_TAGS


async def test_jobs_are_found_by_their_tags(app: Headrace) -> None:
    @app.task
    async def ship(n: int) -> int:
        return n

    both = await ship.options(tags=["vip", "eu", "vip"]).enqueue(1)
    later = await ship.options(tags=("eu",), delay=60).enqueue(2)
    await ship.enqueue(3)
    assert (await app.admin.job(both.id)).tags == ("vip", "eu")
    found = (await app.admin.jobs(tag="eu")).jobs
    assert {job.id for job in found} == {both.id, later.id}
    found = (await app.admin.jobs("default", "waiting", tag="eu")).jobs
    assert [(job.id, job.tags) for job in found] == [(both.id, ("vip", "eu"))]
    assert (await app.admin.jobs(tag="e")).jobs == []
    report = await app.admin.cancel(tag="eu")
    assert report.cancelled == 2


async def test_tags_stay_with_a_job_to_its_end(app: Headrace) -> None:
    @app.task
    async def ship(n: int) -> int:
        if n < 0:
            raise ValueError(n)
        return n

    async with app.worker():
        dead = await ship.options(tags=["vip"], retry=Retry(1)).enqueue(-1)
        done = await ship.options(tags=["vip"]).enqueue(1)
        assert await done.result(timeout=20) == 1
        while await dead.status() is not State.DEAD:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [job.id for job in await app.admin.dead(tag="vip")] == [dead.id]
    assert [job.tags for job in await app.admin.dead(tag="vip")] == [("vip",)]
    assert await app.admin.dead(tag="other") == []
    found = (await app.admin.jobs("default", "done", tag="vip")).jobs
    assert [(job.id, job.tags) for job in found] == [(done.id, ("vip",))]
    assert await app.admin.replay(tag="vip") == 1
    assert (await app.admin.job(dead.id)).tags == ("vip",)


async def test_a_job_of_a_flow_has_tags(app: Headrace) -> None:
    @app.task
    async def ship(n: int) -> int:
        return n

    await app.enqueue(chain(ship.options(tags=["vip"]).call(1), ship.call()))
    (job,) = (await app.admin.jobs(tag="vip")).jobs
    assert job.state is State.WAITING


@pytest.mark.parametrize(
    ("tags", "what"),
    [
        ("vip", "must be a list of texts, not 'vip'"),
        ([1], "must be a non-empty text, not 1"),
        ([""], "must be a non-empty text"),
        (["x" * 300], "takes 300 bytes"),
        (["a\x00"], "control characters"),
        ([f"t{n}" for n in range(MAX_TAGS + 1)], "at most 32 are allowed"),
        (7, "must be a list of texts, not 7"),
    ],
)
async def test_tags_that_cannot_be_are_refused(app: Headrace, tags: Any, what: str) -> None:
    @app.task
    async def ship() -> None: ...

    with pytest.raises(ConfigError, match=what):
        ship.options(tags=tags)
