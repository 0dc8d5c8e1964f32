"""What a blocked job waits for is said in the words of the user."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from tests.cli.conftest import Start


def test_jobs_over_their_rate_say_so(shop: Path, start: Start) -> None:
    url = f"sqlite:///{shop}/headrace.db"

    async def send_two() -> None:
        async with Headrace(url) as app:

            @app.task(rate="1/h")
            async def send(number: int) -> None: ...

            await send.enqueue(1)
            await send.options(id="second").enqueue(2)

    asyncio.run(send_two())
    runner = CliRunner(env={"HEADRACE_URL": url})
    listed = runner.invoke(main, ["jobs", "list", "--state", "blocked"])
    assert listed.stdout.endswith("  waits for the rate of its task\n")
    shown = runner.invoke(main, ["jobs", "show", "second"])
    assert "\nwaits for  the rate of its task\n" in shown.stdout
    as_json = runner.invoke(main, ["jobs", "list", "--json"])
    assert [job["waits_for"] for job in json.loads(as_json.stdout)].count("rate:send") == 1
    watched = start("jobs", "watch", "--url", url, "-Q", "default", "--after", "")
    watched.says("second  send  waits for the rate of its task")
