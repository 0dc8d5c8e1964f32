"""`headrace stats`: counts of late, and dead jobs by reason and error."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Defer, Headrace, JobFailed, Reject, Retry
from headrace.cli import main


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/headrace.db"


def shown(url: str, *arguments: str) -> Result:
    result = CliRunner(env={"HEADRACE_URL": url}).invoke(main, ["stats", *arguments])
    assert result.exit_code == 0, result.stderr
    return result


async def worked(url: str) -> None:
    app = Headrace(url)
    deferred: list[str] = []

    @app.task(queue="mail", retry=Retry(1))
    async def send(how: str) -> None:
        if how == "later" and not deferred:
            deferred.append(how)
            raise Defer(0.01)
        if how not in ("", "later"):
            raise Reject("no") if how == "reject" else KeyError(how)

    async with app, app.worker():
        await (await send.enqueue("later")).result(30)
        for how in ("reject", "lost", "gone"):
            with pytest.raises(JobFailed):
                await (await send.enqueue(how)).result(30)


def test_what_was_done_and_what_is_dead(url: str) -> None:
    asyncio.run(worked(url))
    heading, row, _, total, by_reason, by_error = shown(url).stdout.splitlines()
    assert heading.split()[:8] == [
        *("QUEUE", "TASK", "SENT", "DONE", "RETRY", "DEFERRED", "DEAD", "CANCELLED"),
    ]
    assert row.split()[:8] == ["mail", "send", "4", "1", "0", "1", "3", "0"]
    assert total == "3 dead jobs"
    assert by_reason == "by reason: retries_exhausted 2, rejected 1"
    assert by_error == "by error: KeyError 2, headrace.errors.Reject 1"
    found = json.loads(shown(url, "--json", "--minutes", "5").stdout)
    assert found["dead"]["by_reason"] == {"retries_exhausted": 2, "rejected": 1}
    assert found["tasks"][0]["done"] == 1
    assert found["tasks"][0]["run_p95"] > 0


def test_one_queue_alone(url: str) -> None:
    asyncio.run(worked(url))
    assert "mail" in shown(url, "-q", "mail").stdout
    assert shown(url, "-q", "other").stdout == "nothing was sent or run in the last 60 minutes\n"


def test_nothing_yet(url: str) -> None:
    async def opened() -> None:
        async with Headrace(url):
            pass

    asyncio.run(opened())
    assert shown(url, "--minutes", "1").stdout == "nothing was sent or run in the last 1 minute\n"
