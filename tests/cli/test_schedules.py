"""`headrace schedules`: list, pause, resume, remove, run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import main


class Calendar:
    """A store with two schedules."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headrace.db"
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with Headrace(self.url) as app:

            @app.task(queue="mail")
            async def report(day: str) -> None: ...

            call = report.call("today")
            await app.schedules.upsert("nightly", call, cron="0 3 * * *", timezone="Europe/Berlin")
            await app.schedules.upsert("often", call, every=30)

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, ["schedules", *arguments])

    def states(self) -> dict[str, bool]:
        return {s["name"]: s["paused"] for s in json.loads(self.run("--json").stdout)}


@pytest.fixture
def calendar(shop: Path) -> Calendar:
    return Calendar(shop)


def test_list_shows_what_runs_when(calendar: Calendar) -> None:
    result = calendar.run()
    assert result.exit_code == 0
    heading, nightly, often = result.stdout.splitlines()
    assert heading.split() == ["SCHEDULE", "WHEN", "TASK", "QUEUE", "NEXT", "FIRED", "STATE"]
    assert nightly.startswith("nightly   0 3 * * * Europe/Berlin  report  mail   20")
    assert often.startswith("often     every 30 s")
    assert nightly.endswith("0  on")
    assert calendar.run("list").stdout == result.stdout


def test_pause_and_resume(calendar: Calendar) -> None:
    assert calendar.run("pause", "nightly").stdout == "paused nightly\n"
    assert calendar.states() == {"nightly": True, "often": False}
    assert calendar.run("list").stdout.splitlines()[1].endswith("paused")
    resumed = json.loads(calendar.run("resume", "nightly", "--json").stdout)
    assert (resumed["name"], resumed["paused"]) == ("nightly", False)


def test_remove_needs_a_yes(calendar: Calendar) -> None:
    result = calendar.run("remove", "often")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert calendar.run("remove", "often", "--yes").stdout == "removed often\n"
    assert calendar.states() == {"nightly": False}


def test_run_sends_one_job_now(calendar: Calendar) -> None:
    id = calendar.run("run", "nightly").stdout.strip()
    shown = CliRunner(env={"HEADRACE_URL": calendar.url}).invoke(main, ["jobs", "show", id])
    assert "arguments  {'day': 'today'}" in shown.stdout.splitlines()
    assert json.loads(calendar.run("run", "nightly", "--json").stdout).keys() == {"id"}


@pytest.mark.parametrize("verb", ["pause", "resume", "remove", "run"])
def test_an_unknown_schedule_is_named(calendar: Calendar, verb: str) -> None:
    yes = ["--yes"] if verb == "remove" else []
    result = calendar.run(verb, "never", *yes)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line == "headrace: there is no schedule 'never': see 'headrace schedules'"


def test_an_empty_store_has_none(shop: Path) -> None:
    (shop / "headrace.db").touch()
    assert CliRunner().invoke(main, ["schedules"]).stdout == "no schedules\n"
