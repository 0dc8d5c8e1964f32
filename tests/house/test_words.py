"""One vocabulary: no class name twice, no word that has gone out of use, no file that grows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from tests.house.package import ROOT, modules

REPOSITORY = Path(__file__).parents[2]
HERE = Path(__file__).relative_to(REPOSITORY)

# Words that had another word for the same idea beside them, each with the one that stays.
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
    r"how-manieth": "attempt number",
}
# Turns of phrase that have to be read twice; nowhere in the documents or the source.
ROUNDABOUT = r"of which|those who|so many|what (becomes|became) of|it is looked (?!up)|whoever|told"
# What was decided, and what has changed, keep the words of their time.
HISTORY = ("docs/decisions/", "CHANGELOG.md")

# A file fits in a head. These are longer, each for a reason. Docstrings do not count: what each
# parameter means is read one at a time, in an editor or on the site, and should not be cut short.
MOST_LINES = 275
LONGER = {
    "app": "one facade, long by overloads",
    "core.task.signature": "the parameters of a function, in and out",
    "errors": "one tree",
    "store.contract": "one contract",
    "store.redis.script_stubs": "written by tools/lua_stubs.py",
    "store.redis.store": "one store: a method for each verb",
    "store/redis/lua/prelude.lua": "what scripts share; each is given the functions that it calls",
    "store/redis/lua/settle.lua": "one transition: all outcomes of a batch",
}

# A folder shows what it holds: no more files than one takes in at a glance.
MOST_FILES = 20


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


def test_a_word_that_is_out_of_use_stays_out() -> None:
    pattern = re.compile(rf"\b({'|'.join(RETIRED)})\b", re.IGNORECASE)
    found = {
        f"{path}:{number}: {match[0]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(parts_of(line)))
    }
    assert not found, f"say instead: {RETIRED}"


def test_documents_and_source_say_it_straight() -> None:
    pattern = re.compile(rf"\b({ROUNDABOUT})\b", re.IGNORECASE)
    found = {
        f"{path}:{number}: {match[0]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if path.startswith("src/") or path.endswith(".md")
        if (match := pattern.search(line))
    }
    assert not found


def test_no_two_classes_have_one_name() -> None:
    names = Counter(node.name for module in modules() for node in module.nodes(ast.ClassDef))
    assert not {name for name, count in names.items() if count > 1}


def test_a_file_is_about_one_thing_and_fits_in_a_head() -> None:
    lengths = {module.name: module.lines for module in modules()}
    lengths |= {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in ROOT.rglob("*.lua")
    }
    long = {name for name, lines in lengths.items() if lines > MOST_LINES}
    assert long - LONGER.keys() == set()
    assert LONGER.keys() - long == set(), "these are short enough by now"


def test_a_folder_shows_what_it_holds() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
    assert {name for name, files in counts.items() if files > MOST_FILES} == set()
