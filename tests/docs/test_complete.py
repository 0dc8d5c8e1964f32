"""The documents leave out nothing that the program has: options, errors, decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import click
import pytest

from headrace import errors
from headrace.audit.record import Ended
from headrace.cli import main as program
from headrace.client.ends.listener import MOMENTS
from headrace.core.job.state import Reason
from headrace.errors import JobNotFound, SendError
from headrace.store.values import Kind

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


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("events.md", "## Events", get_args(Kind)),
        ("events.md", "## Listeners", MOMENTS),
        ("audit.md", "## What is in a record", get_args(Ended)),
        ("retries.md", "## Reasons", tuple(Reason)),
    ],
    ids=["kinds", "moments", "endings", "reasons"],
)
def test_a_table_of_what_can_happen_leaves_nothing_out(
    page: str, heading: str, names: tuple[str, ...]
) -> None:
    first_cells = [row.split(" | ")[0] for row in rows(page, heading).splitlines()]
    listed = {name for cell in first_cells for name in re.findall(r"`\"?(\w+)\"?`", cell)}
    assert set(names) - listed == set()


def test_the_page_about_the_admin_names_every_kind_of_event() -> None:
    page = (DOCS / "admin.md").read_text()
    said = next(line for line in page.splitlines() if line.startswith("Everything that happens"))
    assert {kind for kind in get_args(Kind) if f"`{kind}`" not in said} == set()


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
