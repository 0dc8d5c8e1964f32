"""Commands that are printed do what they say, pasted into a shell, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from headrace.cli.app_loader import command, reading

# Names that a queue can have.
NAMES = [
    "mail",
    "$(touch$IFS$9pwned)",
    "`touch$IFS$9pwned`",
    "a;touch$IFS$9pwned",
    "a&&touch>pwned",
    "a|tee>pwned",
    ">pwned",
    "it's",
    '"quoted"',
    "\\back",
    "*",
    "~",
    "#no",
    "!history",
    "-x",
    "--all",
    "--yes=1",
    "os:system",
]


def in_a_shell(line: str, folder: Path) -> list[str]:
    """The words that a program is given when this line is typed."""
    shell = f'headrace() {{ printf "%s\\0" "$@"; }}\n{line}\n'
    ended = subprocess.run(
        ["/bin/sh", "-c", shell], cwd=folder, capture_output=True, text=True, check=True
    )
    return ended.stdout.split("\0")[:-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_makes_nothing_else_of_a_name(name: str, tmp_path: Path) -> None:
    for line in (
        command("queues", "resume", words=(name,)),
        command("queues", "resume", words=("q", name), task=name),
        command("dead", "list", queue=name),
        f"headrace worker {reading(name).partition(' alone with ')[2]}",
    ):
        words = in_a_shell(line, tmp_path)
        assert any(word in (name, f"--queue={name}", f"{name}=1") for word in words), line
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", NAMES)
def test_what_check_prints_can_be_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    monkeypatch.setenv("HEADRACE_URL", url)
    asyncio.run(_paused(url, name))
    said = CliRunner().invoke(main, ["check"]).stdout
    (line,) = [each for each in said.splitlines() if "paused: " in each]
    words = in_a_shell(line.partition("paused: ")[2], tmp_path)
    if "APP" in words:
        # A name that looks like an app is not taken for one: whoever pastes it says which.
        ended = CliRunner().invoke(main, words)
        assert "'APP' does not name an app" in ended.stderr
        return
    ended = CliRunner().invoke(main, words)
    assert ended.exit_code == 0, ended.stderr
    assert not asyncio.run(_is_paused(url, name))
    assert "pwned" not in os.listdir(tmp_path)


async def _paused(url: str, name: str) -> None:
    async with Headrace(url) as app:
        await app.admin.pause(name)


async def _is_paused(url: str, name: str) -> bool:
    async with Headrace(url) as app:
        return (await app.admin.queue(name)).paused


def test_a_queue_that_has_a_number_in_its_name_is_no_weight() -> None:
    assert reading("mail=5").endswith("headrace worker APP, for this queue alone with -Q mail=5=1")
    assert "-Q" not in reading("a,b")
