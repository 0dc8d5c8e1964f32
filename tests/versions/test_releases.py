"""What a release has written, this version uses on: every job runs, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace import Headrace
from tests.servers import RedisServer
from tests.versions.release_data import DATA, read_file, read_keys
from tests.versions.shop import Shop

RELEASES = sorted(path.stem for path in DATA.glob("*.json"))
LONG = 60.0


@pytest.fixture(params=["sqlite", "redis"])
async def shop(release: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    """The program, on what a release has left."""
    if request.param == "sqlite":
        read_file(release, tmp_path / "shop.db")
        url = f"sqlite:///{tmp_path}/shop.db"
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url
        read_keys(release, url)
    shop = Shop(url)
    async with shop.app:
        yield shop


def test_there_is_data_of_the_first_release() -> None:
    assert "0.1.0" in RELEASES
    assert sorted(path.name.removesuffix(".db.gz") for path in DATA.glob("*.gz")) == RELEASES


@pytest.mark.parametrize("release", RELEASES)
async def test_data_of_a_release_is_used_on(shop: Shop) -> None:
    await _all_is_found(shop)
    async with shop.app.worker():
        await _jobs_run(shop)
        await _groups_go_on(shop)
        await _schedules_fire(shop)
        await _people_go_on(shop)
        await _nothing_is_left(shop)


async def _all_is_found(shop: Shop) -> None:
    jobs = ("waiting", "thread", "far", "turn-0", "turn-1", "flow", "dead", "done")
    states = [str(await shop.app.job(id).status()) for id in jobs]
    assert states == [
        *("waiting", "waiting", "scheduled", "waiting", "blocked", "blocked", "dead", "done")
    ]
    assert await shop.app.job("done").result(timeout=LONG) == 5
    dead = await shop.app.job("dead").info()
    assert dead.reason == "retries_exhausted"
    assert [attempt.error_text for attempt in dead.attempts] == ["the bank is away"] * 2
    again = await shop.refresh.enqueue("prices")
    assert again.id == "unique"


async def _jobs_run(shop: Shop) -> None:
    ids = ("waiting", "urgent", "thread", "due", "flow")
    results = [await shop.app.job(id).result(timeout=LONG) for id in ids]
    assert results == [5, 6, "TEA", 7, 10]
    for id in ("unique", "turn-2"):
        await shop.app.job(id).result(timeout=LONG)
    in_turn = [name for name in shop.ran if name.startswith("turn")]
    assert in_turn == ["turn 0", "turn 1", "turn 2"]


async def _groups_go_on(shop: Shop) -> None:
    await _until(lambda: len(shop.billed) + len(shop.entered) >= 4)
    assert sorted(shop.billed) == ["o-1", "o-2"]
    assert sorted(shop.entered) == ["o-1 30", "o-2 20"]
    assert [event.data.cents for event in await shop.orders.read()] == [10, 20, 30]


async def _schedules_fire(shop: Shop) -> None:
    found = {each.name: each for each in await shop.app.schedules.list()}
    assert found["nightly"].cron == "30 2 * * *"
    assert found["often"].paused
    await shop.app.schedules.resume("often")
    await _until(lambda: "tick" in shop.ran)
    await shop.app.schedules.remove("often")


async def _people_go_on(shop: Shop) -> None:
    shop.is_repaired = True
    await shop.app.admin.replay(["dead"])
    await shop.app.admin.run_now(["far"])
    assert await shop.app.job("dead").result(timeout=LONG) == 995
    assert await shop.app.job("far").result(timeout=LONG) == 8
    await shop.app.admin.resume("paused")
    async with shop.app.worker(queues=["paused"]):
        assert await shop.app.job("paused").result(timeout=LONG) == 9


async def _nothing_is_left(shop: Shop) -> None:
    for queue in ("default", "early", "paused"):
        await _until_settled(shop.app, queue)
        counts = await shop.app.store.count(queue)
        assert not counts.blocked + counts.scheduled + counts.dead


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _until_settled(app: Headrace, queue: str) -> None:
    async with asyncio.timeout(LONG):
        while (counts := await app.store.count(queue)).waiting + counts.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
