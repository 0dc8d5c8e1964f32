"""What `make docs` does beyond MkDocs, piece by piece; `make check` builds the whole site."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mkdocs.exceptions import PluginError

from headrace.cli import COMMANDS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))
commands, markdown_of, navigation, outside, repository = (
    importlib.import_module(name)
    for name in ("commands", "markdown_of", "navigation", "outside", "repository")
)
sys.path.pop(0)


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("tasks.md", "retries.md#policies", "retries.md#policies"),
        ("tasks.md", "../README.md", "index.md"),
        ("tasks.md", "../ARCHITECTURE.md#gates", "architecture.md#gates"),
        ("tasks.md", "../examples/flows.py", "files/examples/flows.py.md"),
        ("tasks.md", "index.md#words", "contents.md#words"),
        ("index.md", "docs/tasks.md", "tasks.md"),
        ("index.md", "docs/screenshots/top.svg", "screenshots/top.svg"),
        ("decisions/0060-site.md", "../tasks.md", "../tasks.md"),
        ("architecture.md", "docs/decisions/0060-site.md", "decisions/0060-site.md"),
        ("tasks.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("tasks.md", "#declaring", "#declaring"),
    ],
)
def test_a_link_between_files_is_a_link_between_pages(
    page: str, link: str, on_the_site: str
) -> None:
    assert repository.linked(f"See [it]({link}).", page) == f"See [it]({on_the_site}).\n"


def test_code_keeps_its_brackets() -> None:
    text = "```python\nhandlers[kind](../README.md)\n```\n"
    assert repository.linked(text, "tasks.md") == text


def test_a_file_that_pages_link_to_has_a_page_that_shows_it() -> None:
    shown = repository.pages()["files/examples/flows.py.md"]
    assert (ROOT / "examples/flows.py").read_text().rstrip() in shown


def pages_in(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages_in(value)


def test_the_navigation_has_every_page_once_under_what_its_reader_wants_to_do() -> None:
    parts = navigation.read(ROOT / "docs/index.md", repository.PAGES, {})
    assert list(parts[0]) == ["Start"]
    assert [title for part in parts for title in part][-2:] == ["Reference", "Inside"]
    docs = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    pages = {repository.uri_of(path) for path in docs | repository.PAGES.keys()}
    assert sorted(pages_in(parts)) == sorted(pages)


def test_a_page_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("## Start\n| [A](a.md) | |\n| [A](a.md) | |\n")
    with pytest.raises(PluginError, match=r"lists a\.md twice"):
        navigation.read(tmp_path / "index.md", {}, {})


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<link rel=stylesheet href=//fonts.example/x.css>",
        '<p><img alt="" src="https://img.example/x.png">',
        "<style>@import 'https://fonts.example/x.css';</style>",
        "<style>a { background: url(https://img.example/x.png) }</style>",
    ],
)
def test_what_a_page_loads_from_another_host_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(text)
    assert len(outside.loaded(tmp_path)) == 1


def test_pictures_load_nothing_from_another_host() -> None:
    assert list((ROOT / "docs").rglob("*.svg"))
    assert outside.loaded(ROOT / "docs") == []


def test_a_link_that_a_reader_may_follow_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">there</a><script src="assets/x.js"></script>'
        '<link rel="canonical" href="https://headrace.example/">'
    )
    assert outside.loaded(tmp_path) == []


def test_a_picture_on_another_host_is_its_words() -> None:
    badge = "[![checks](https://img.example/checks.svg)](https://ci.example)"
    assert markdown_of.site(f"{badge} ![here](a.png)\n") == (
        "[checks](https://ci.example) ![here](a.png)\n"
    )
    code = f"```text\n{badge}\n```\n"
    assert markdown_of.site(code) == code
    assert markdown_of.PICTURE_FROM_ELSEWHERE.search((ROOT / "README.md").read_text())


def test_a_state_diagram_is_a_table_of_its_arrows() -> None:
    arrows = "[*] --> waiting: append\n    waiting --> running: fetch"
    text = f"```mermaid\nstateDiagram-v2\n    {arrows}\n```\n"
    assert "| waiting | running | fetch |" in markdown_of.site(text)
    with pytest.raises(PluginError, match="state diagrams only"):
        markdown_of.site("```mermaid\nflowchart LR\n    a --> b\n```\n")


def test_the_page_about_the_command_line_has_every_command_and_its_options() -> None:
    ((_, text),) = commands.pages().items()
    for name in COMMANDS:
        assert f"\n## headrace {name}\n" in text, name
    assert "\n### headrace queues pause\n" in text
    said = (
        "Jobs at a time in each worker process. Default: `100`. Variable: `HEADRACE_CONCURRENCY`."
    )
    assert f"`--concurrency N` | {said} |" in text
