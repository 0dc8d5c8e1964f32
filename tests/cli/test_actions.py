"""`headrace actions`: what commands did is recorded, with who did it."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import main


class Terminal:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"HEADRACE_URL": self.url}).invoke(main, arguments)

    async def fill(self) -> str:
        """A job, a schedule and a group; the job's id."""
        async with Headrace(self.url) as app:
            orders = app.topic("orders", str)

            @app.task
            async def report() -> None: ...

            @orders.subscribe("billing")
            async def bill(order: str) -> None: ...

            await orders.publish("o-1")
            await app.schedules.upsert("often", report.call(), every=3600)
            return (await report.enqueue()).id


@pytest.fixture
def terminal(shop: Path) -> Terminal:
    return Terminal(shop)


def test_what_every_command_did_is_listed_with_who_did_it(terminal: Terminal) -> None:
    id = asyncio.run(terminal.fill())
    for words in (
        "queues pause default",
        "queues resume default",
        f"jobs cancel {id}",
        "jobs cancel nothing-like-it",
        "dead replay --all --yes",
        "dead purge -Q default --yes",
        "schedules pause often",
        "schedules resume often",
        "schedules run often",
        "schedules remove often --yes",
        "topics rewind orders billing --to start --yes",
        "topics free orders billing o-1",
        "topics remove orders billing --yes",
    ):
        terminal.run(*words.split())
    found = json.loads(terminal.run("actions", "--json").stdout)[::-1]
    assert [(action["verb"], action["target"]) for action in found] == [
        ("pause", "default"),
        ("resume", "default"),
        ("cancel", id),
        ("cancel", "nothing-like-it"),
        ("replay", "all"),
        ("purge", "default"),
        ("pause_schedule", "often"),
        ("resume_schedule", "often"),
        ("run_schedule", "often"),
        ("remove_schedule", "often"),
        ("rewind", "billing@orders"),
        ("free_key", "billing@orders"),
        ("remove_group", "billing@orders"),
    ]
    assert not [action for action in found if "1970" in action["detail"]]
    assert {action["actor"] for action in found} == {f"{getpass.getuser()}@{socket.gethostname()}"}
    assert [action["verb"] for action in found if action["error"]] == ["cancel"]


def test_actions_are_a_table_for_people(terminal: Terminal) -> None:
    Path(terminal.url.removeprefix("sqlite:///")).touch()
    assert terminal.run("actions").stdout == "no actions yet\n"
    terminal.run("queues", "pause", "mail", "--force")
    heading, row = terminal.run("actions", "--limit", "1").stdout.splitlines()
    assert heading.split() == ["WHEN", "WHO", "FROM", "ACTION", "TARGET", "DETAIL", "ERROR"]
    assert row.split()[-6:] == ["pause", "mail", "paused:", "False", "→", "True"]


def test_actions_are_shown_page_by_page(terminal: Terminal) -> None:
    Path(terminal.url.removeprefix("sqlite:///")).touch()
    for number in range(5):
        terminal.run("queues", "pause", f"queue-{number}", "--force")
    latest = terminal.run("actions", "--limit", "2")
    following = latest.stderr.split()[-2:]
    assert following[0] == "--before"
    older = json.loads(terminal.run("actions", "--json", "--limit", "2", *following).stdout)
    assert [action["target"] for action in older] == ["queue-2", "queue-1"]
    assert "there are more" not in terminal.run("actions", "--before", older[-1]["id"]).stderr


def test_a_user_without_a_name_is_a_number(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    Path(terminal.url.removeprefix("sqlite:///")).touch()
    monkeypatch.setattr(getpass, "getuser", nameless)
    assert terminal.run("queues", "pause", "mail", "--force").exit_code == 0
    (action,) = json.loads(terminal.run("actions", "--json").stdout)
    assert action["actor"].partition("@")[0].isdigit()
