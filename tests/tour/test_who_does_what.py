"""Workers that have a name, and workers that leave schedules or upkeep to others."""

from __future__ import annotations

import asyncio
import re

import pytest

from headrace import Headrace, State
from headrace.client.schedules import SPACE
from headrace.errors import ConfigError


async def test_a_worker_without_upkeep_leaves_what_is_due_to_others(app: Headrace) -> None:
    @app.task
    async def later() -> str:
        return "done"

    @app.task
    async def now() -> None:
        pass

    delayed = await later.options(delay=0.01).enqueue()
    async with app.worker(upkeep=False):
        await asyncio.sleep(0.05)
        await (await now.enqueue()).result(30)
        assert await delayed.status() is State.SCHEDULED
        async with app.worker():
            assert await delayed.result(30) == "done"


async def test_a_worker_without_schedules_leaves_ticks_to_others(app: Headrace) -> None:
    ran = asyncio.Event()

    @app.every(0.1)
    async def beat() -> None:
        ran.set()

    @app.task
    async def now() -> None:
        pass

    async with app.worker(schedules=False):
        await (await now.enqueue()).result(30)
        # Its first step would have written the declared schedule.
        assert not await app.store.kv_all(SPACE)
        async with app.worker():
            await asyncio.wait_for(ran.wait(), 30)


async def test_a_worker_has_the_name_it_was_given_and_a_part_of_its_own(app: Headrace) -> None:
    @app.task
    async def now() -> None:
        pass

    async with app.worker(name="mail") as one, app.worker(name="mail") as other:
        shown = {worker.name for worker in await app.admin.workers()}
        assert shown == {one.name, other.name}
        assert all(re.fullmatch("mail-[0-9a-f]{8}", name) for name in shown)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65])
async def test_a_name_that_no_worker_can_have_is_refused(name: str) -> None:
    app = Headrace("memory://")

    @app.task
    async def now() -> None:
        pass

    with pytest.raises(ConfigError, match="the name of a worker"):
        app.worker(name=name)
