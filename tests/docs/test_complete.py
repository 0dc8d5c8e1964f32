"""The documents leave out nothing that the program has: options, errors, decisions."""

from __future__ import annotations

import re
from pathlib import Path

import click

from headrace import errors
from headrace.cli import main as program
from headrace.errors import JobNotFound, SendError

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, heading: str) -> str:
    """The rows of the tables below a heading, up to the next heading."""
    _, _, section = (DOCS / page).read_text().partition(f"{heading}\n")
    lines = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def test_the_page_about_workers_lists_every_option_of_the_command() -> None:
    worker = program.get_command(click.Context(program, **program.context_settings), "worker")
    assert worker is not None
    listed = rows("workers.md", "# Workers")
    shown = [each for each in worker.params if not getattr(each, "hidden", False)]
    options = [max(each.opts, key=len) for each in shown]
    missing = [name for name in options if name.startswith("-") and f"`{name}`" not in listed]
    assert missing == ["--app"]  # Named in the text, as the argument.


def test_the_page_about_tasks_lists_every_error_of_sending() -> None:
    listed = rows("tasks.md", "### When sending fails")
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    sending = {each.__name__ for each in kinds if issubclass(each, SendError)} - {
        "SendError",
        "EventError",  # Of publishing.
        "TopicFull",
    }
    assert "QueueFull" in sending
    assert {name for name in sending if f"`{name}`" not in listed} == set()


def test_every_decision_is_listed_in_order() -> None:
    listed = re.findall(r"\(decisions/([\w-]+)\.md\)", rows("index.md", "## Decisions"))
    assert listed == sorted(path.stem for path in DOCS.glob("decisions/*.md"))


def test_every_page_is_listed_once() -> None:
    """The navigation of the site is made from this list: see tools/site/navigation.py."""
    index = (DOCS / "index.md").read_text()
    listed = re.findall(r"^\| \[[^]]+\]\(([\w/-]+\.md)\) \|", index, re.MULTILINE)
    pages = [*DOCS.glob("*.md"), *DOCS.glob("howto/*.md")]
    listed = [name for name in listed if not name.startswith("decisions/")]
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in pages)


def test_what_people_do_is_logged_where_the_pages_say() -> None:
    for page in ("admin.md", "dashboard.md", "logs.md"):
        assert "`headrace.actions`" in (DOCS / page).read_text(), page


def test_a_job_that_is_not_found_may_have_left_the_history() -> None:
    assert "keep_done" in str(JobNotFound("x"))


def test_the_changelog_says_each_thing_once_under_the_word_one_looks_for() -> None:
    """An entry begins with its subject in bold, or a name in code; no subject comes twice."""
    text = (DOCS.parent / "CHANGELOG.md").read_text()
    subjects = re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE)
    assert len(subjects) > 30
    assert len(set(subjects)) == len(subjects)
    (first, *_) = re.findall(r"^## \[0\.1\.0\].*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert first.count("\n- ") < 70
