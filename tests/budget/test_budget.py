"""No page, export or command takes more than its share of memory, time and bytes, whatever someone
who may write to the store has put into it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import main
from tests.budget.planting import name_queues, plant
from tests.budget.things import (
    COMMANDS,
    NO_LOOKS,
    NO_PAGES,
    PAGES,
    Things,
    paths_of_the_dashboard,
    things,
    those_of_all_queues,
)
from tests.cli.commands import names_of_commands

TENTH = 0.1
# Of the processor, on a slow machine: most take less than a tenth of a second.
MOST_SECONDS, LONGEST_BLOCK, MOST_MIB, MOST_PAGE = 20.0, 2.0, 120, 500_000
LONG = 110.0

Figures = dict[str, Any]


def test_every_page_is_measured() -> None:
    assert paths_of_the_dashboard() == set(PAGES) | NO_PAGES


def test_every_command_is_measured() -> None:
    assert set(names_of_commands(main)) == set(COMMANDS) | NO_LOOKS


def figures_of(
    url: str, namespace: str, folder: Path, asked: Things, seconds: float = LONG
) -> list[Figures]:
    """What each of these takes over a store."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.budget.measuring", url, namespace, str(folder)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(figures) == len(asked["pages"]) + len(asked["commands"])
    return figures


def planted(url: str, namespace: str, scale: float) -> None:
    """Fill the store with jobs."""

    async def fill() -> None:
        async with Headrace(url, namespace=namespace) as app:
            await plant(app, scale)

    asyncio.run(fill())


def beyond(figures: list[Figures], factor: float = 1.0) -> list[Figures]:
    """Those that took more than they may, or failed."""
    return [
        each
        for each in figures
        if each["status"] not in (200, 0, 1, 2)
        or each["seconds"] > MOST_SECONDS * factor
        or each["longest"] > LONGEST_BLOCK * factor
        or each["peak"] > MOST_MIB * factor
        or (each["length"] > MOST_PAGE and _is_page(each["what"]))
    ]


def _is_page(what: str) -> bool:
    """Exports are as large as what is in the store."""
    return what.startswith("/") and not re.search(r"json|/raw|/metrics", what)


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis_url"))
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.mark.parametrize("which", ["pages", "commands"])
def test_large_jobs_in_a_store_cost_little(
    which: str, url: str, namespace: str, tmp_path: Path
) -> None:
    planted(url, namespace, TENTH)
    asked: Things = {"pages": [], "commands": [], which: things()[which]}
    assert beyond(figures_of(url, namespace, tmp_path, asked)) == []


def test_many_queues_in_a_store_cost_little(url: str, namespace: str, tmp_path: Path) -> None:
    planted(url, namespace, 0)
    name_queues(url, namespace, TENTH)
    assert beyond(figures_of(url, namespace, tmp_path, those_of_all_queues())) == []
