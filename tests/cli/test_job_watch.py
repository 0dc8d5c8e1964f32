"""`headrace jobs watch ID`."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Context, Headrace, Reject
from headrace.cli import main
from headrace.cli.output import moment
from tests.cli.conftest import Start


class Depot:
    """A file whose jobs this process runs while another one watches them."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headrace.db"
        self.app = Headrace(self.url)
        self.go = asyncio.Event()
        self.app.task(name="bake")(self._bake)

    async def _bake(self, context: Context, bread: str) -> str:
        context.progress(0.5, f"{bread} is half done")
        context.log("the oven \x1b[2J is hot")
        await self.go.wait()
        if bread == "stone":
            raise Reject("stones do not rise")
        return bread

    async def bake(self, bread: str, *, seen: asyncio.Event | None = None) -> None:
        async with self.app, self.app.worker():
            job = await self.app.enqueue(self.app.tasks["bake"].options(id=bread).call(bread))
            async for update in job.watch():
                if update.progress is not None and seen is not None:
                    seen.set()

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, ["jobs", "watch", *arguments])


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot(tmp_path)


async def test_a_job_is_followed_to_its_end(depot: Depot, start: Start) -> None:
    seen = asyncio.Event()
    baking = asyncio.create_task(depot.bake("rye", seen=seen))
    await seen.wait()
    program = start("jobs", "watch", "rye", HEADRACE_URL=depot.url)
    await asyncio.to_thread(program.says, "50%  rye is half done")
    assert "  | the oven \\x1b[2J is hot" in program.output
    depot.go.set()
    await asyncio.to_thread(program.says, "done")
    assert await asyncio.to_thread(program.ended) == 0
    await baking


def test_one_that_ends_badly_shows_its_error_and_is_reported_by_the_exit_code(depot: Depot) -> None:
    depot.go.set()
    asyncio.run(depot.bake("stone"))
    result = depot.run("stone")
    assert result.exit_code == 1
    assert "dead: rejected" in result.stdout
    assert "stones do not rise" in result.stdout
    (line,) = depot.run("stone", "--json").stdout.splitlines()
    assert json.loads(line)["state"] == "dead"


def test_one_that_has_ended_shows_when(depot: Depot) -> None:
    depot.go.set()
    asyncio.run(depot.bake("rye"))
    ended = asyncio.run(_ended(depot))
    while datetime.now(UTC) < ended + timedelta(seconds=1.5):
        time.sleep(0.05)
    (line,) = [each for each in depot.run("rye").stdout.splitlines() if " done" in each]
    assert line.startswith(moment(ended))


async def _ended(depot: Depot) -> datetime:
    async with Headrace(depot.url) as app:
        ended = (await app.admin.job("rye")).ended
        assert ended is not None
        return ended


def test_what_cannot_be_watched_is_refused(depot: Depot) -> None:
    depot.go.set()
    asyncio.run(depot.bake("rye"))
    assert depot.run("oats").exit_code == 1
    assert "leave --queue and --after out" in depot.run("rye", "-Q", "default").stderr
    assert "say one id, not 2" in depot.run("rye", "oats").stderr
