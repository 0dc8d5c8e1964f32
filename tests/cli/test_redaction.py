"""What an app hides, its commands do not show, unless they are told to."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from headrace.top.snapshot import SnapshotReader
from tests.vault import CARD, Vault, hide, leaks

MODULE = """
from headrace import Headrace
from tests.vault import Vault, hide

app = Headrace({url!r}, redact=hide)
Vault(app)
"""


class Filled:
    """A store with jobs, and a module with its app."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        module = f"vault_{uuid.uuid4().hex}"
        (folder / f"{module}.py").write_text(MODULE.format(url=self.url))
        self.app = f"{module}:app"
        self.ids = asyncio.run(self._fill())

    async def _fill(self) -> dict[str, str]:
        async with Headrace(self.url) as app:
            return await Vault(app).fill()

    def said(self, noun: str, verb: str, *arguments: str) -> str:
        """All that a command about the app says."""
        return self.said_by(noun, verb, self.app, *arguments)

    def said_by(self, *arguments: str) -> str:
        ended = CliRunner().invoke(main, arguments)
        assert ended.exception is None or isinstance(ended.exception, SystemExit)
        return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("vault")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield Filled(folder)


def commands(ids: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        ("jobs", "list"),
        ("jobs", "list", "--state", "dead"),
        ("jobs", "show", ids["dead"]),
        ("jobs", "why", ids["event"]),
        ("jobs", "log", ids["done"]),
        ("jobs", "watch", ids["dead"]),
        ("dead", "list"),
        ("dead", "show", ids["dead"]),
        ("topics", "read", "orders"),
        ("topics", "keys", "orders", "ledger"),
    ]


def test_no_command_shows_what_is_hidden(filled: Filled) -> None:
    for command in commands(filled.ids):
        for form in ((), ("--json",)):
            text = filled.said(*command, *form)
            assert not leaks(text), command
            assert "hidden" in text or "***" in text or "#" in text, command


def test_a_command_shows_all_if_asked(filled: Filled) -> None:
    for command in commands(filled.ids):
        assert leaks(filled.said(*command, "--show-secrets")), command


def test_a_search_says_that_arguments_are_not_looked_into(filled: Filled) -> None:
    search = ("jobs", "list", "--search", "S3CR3T")
    text = filled.said(*search)
    assert "no unfinished jobs like that" in text
    assert "arguments are not searched" in text
    assert CARD in filled.said(*search, "--show-secrets")


def test_without_an_app_a_variable_names_the_hook(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("jobs", "show", filled.ids["dead"], "--url", filled.url)
    assert leaks(filled.said_by(*command))
    monkeypatch.setenv("HEADRACE_REDACT", "tests.vault:hide")
    assert not leaks(filled.said_by(*command))


async def test_the_terminal_view_shows_nothing_that_is_hidden(filled: Filled) -> None:
    async with Headrace(filled.url, redact=hide) as app:
        hidden = await SnapshotReader(app.admin.redacted()).read()
        shown = await SnapshotReader(app.admin).read()
    assert shown.errors
    assert leaks(repr(shown))
    assert not leaks(repr(hidden))
