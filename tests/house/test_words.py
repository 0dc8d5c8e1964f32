"""One vocabulary: no class name twice, and no name that has gone out of use."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from tests.house.package import modules

REPOSITORY = Path(__file__).parents[2]
HERE = Path(__file__).relative_to(REPOSITORY)

# Names that had another name for the same idea beside them, each with the one that stays.
RETIRED = {
    r"deeds?": "action",
    r"clerk": "action recorder",
    r"errands?": "background action",
    r"mourn(er|ing)?": "dead handler",
    r"ties|tying": "constraints",
    r"sightings?": "job snapshot",
    r"courier": "flow relay",
    r"strands?": "trampoline",
    r"workshop": "worker services",
    r"forgery": "CSRF",
    r"logbook": "topic log",
    r"untaken": "backlog",
    r"wishes": "options",
    r"heeds?": "apply control",
}
# What was decided, and what has changed, keep the words of their time.
HISTORY = ("docs/decisions/", "CHANGELOG.md")


def texts() -> dict[str, str]:
    """All text of the repository that people read, by path."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    kinds = {".py", ".lua", ".md", ".html", ".js", ".css", ".tcss", ".toml", ".yaml", ".json"}
    paths = [Path(name) for name in listed.stdout.splitlines() if not name.startswith(HISTORY)]
    return {
        str(path): (REPOSITORY / path).read_text()
        for path in paths
        if path.suffix in kinds and path != HERE and (REPOSITORY / path).exists()
    }


def parts_of(text: str) -> str:
    """A text with names in it taken apart: `DeadPage` and `dead_page` are two words each."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")


def test_a_name_that_is_out_of_use_stays_out() -> None:
    pattern = re.compile(rf"\b({'|'.join(RETIRED)})\b", re.IGNORECASE)
    found = {
        f"{path}:{number}: {match[0]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(parts_of(line)))
    }
    assert not found, f"say instead: {RETIRED}"


def test_no_two_classes_have_one_name() -> None:
    names = Counter(node.name for module in modules() for node in module.nodes(ast.ClassDef))
    assert not {name for name, count in names.items() if count > 1}
