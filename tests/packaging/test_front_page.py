"""README.md, followed by a stranger: a copy of the repository, an empty home, and what pip finds.

The commands and the program are read from the page, and so is what they print.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import FILES, ROOT, blocks, printed_beside_a_worker, shell_lines

PAGE = ROOT / "README.md"
# Of this run of the tests, its make, its Python and its user.
OURS = ("HEADRACE_", "MAKE", "MFLAGS", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "XDG_")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def run(command: list[str], folder: Path, home: Path, **settings: str) -> str:
    """What the command prints to somebody who has this home, with the PIP_… of the machine."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "HOME": str(home), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed
    return printed


@pytest.mark.slow
def test_make_demo_needs_nothing_but_a_clone(clone: Path, home: Path) -> None:
    before = {each.name for each in clone.iterdir()}
    named = re.findall(r"`(make [^`]+)`", PAGE.read_text())
    assert named == ["make demo", "make test"]
    printed = run(shlex.split(named[0]), clone, home)
    assert "All of it happened" in printed
    assert {each.name for each in clone.iterdir()} - before == {".venv"}


def install(words: list[str], venv: Path, folder: Path, home: Path) -> None:
    """Have what follows `pip` in a command done to a virtual environment."""
    of_venv = ["--python", str(venv / "bin/python")]
    try:
        # It does the same with an eighth of the CPU time.
        printed = run([sys.executable, "-m", "uv", "pip", *words, *of_venv], folder, home)
    except AssertionError:
        # It finds no packages where only pip's own configuration says where they are.
        printed = run([sys.executable, "-m", "pip", *of_venv, *words], folder, home)
    # Both only warn of an extra that there is not.
    assert not re.search(r"does not (have an|provide the) extra", printed), printed


def test_make_alone_lists_what_there_is_in_lines_that_fit_a_terminal(home: Path) -> None:
    lines = run(["make"], ROOT, home).splitlines()
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "check"} < set(targets)
    assert [line.split()[0] for line in lines[2:]] == targets
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_what_the_page_installs_runs_the_program_that_it_shows(
    wheel: Path, home: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (line,) = (line for line in shell_lines(PAGE) if line.startswith("pip "))
    _, *words, name = shlex.split(line)
    what = re.sub(r"^headrace(?=$|\[)", str(wheel), name)
    install([*words, what], venv, tmp_path, home)
    path = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"

    ((_, block),) = (found for found in FILES if found[0] == PAGE)
    assert block.file
    (tmp_path / block.file).write_text(block.text)
    settings = {"HOME": str(home), "PATH": path}
    (said,) = (each.text for each in blocks(PAGE) if each.language == "text")
    assert printed_beside_a_worker(PAGE, block.file, tmp_path, settings) == said


def rows_beside_celery() -> list[tuple[str, str]]:
    """The first code of each row about Celery and Headrace."""
    _, _, below = PAGE.read_text().partition("\n## Beside Celery\n")
    section, _, _ = below.partition("\n## ")
    rows = (line.split(" | ") for line in section.splitlines() if "`" in line and line[0] == "|")
    return [(_code(theirs), _code(ours)) for _, theirs, ours in rows]


def _code(cell: str) -> str:
    (code, *_) = re.findall(r"`([^`]+)`", cell)
    return str(code)


def test_the_rows_beside_celery_are_a_program_of_each(tmp_path: Path) -> None:
    theirs, ours = (list(column) for column in zip(*rows_beside_celery(), strict=True))
    app, task, schedule, send, command = ours
    assert f"headrace {shlex.split(command)[1]}" in "\n".join(shell_lines(PAGE))
    program = [
        "from headrace import Headrace, Retry",
        app, schedule, task, "def report() -> int:", "    return 7",
        "if __name__ == '__main__':", f"    print({send})",
    ]  # fmt: skip
    (tmp_path / "shop.py").write_text("\n".join(program))
    assert printed_beside_a_worker(PAGE, "shop.py", tmp_path, {}) == "7\n"

    app, task, schedule, send, command = theirs
    program = [app, task, "def report(): ...", schedule, send]
    compile("\n".join(program), "theirs.py", "exec")
    assert command == "celery -A shop worker"


def test_the_badges_are_of_this_package_and_of_a_workflow_that_exists() -> None:
    badges = re.findall(r"^\[!\[\w+\]\((\S+?)\)\]\((\S+?)\)$", PAGE.read_text(), re.MULTILINE)
    assert len(badges) == 4
    workflow = badges[0][1]
    assert badges[0][0] == f"{workflow}/badge.svg"
    assert (ROOT / ".github/workflows" / workflow.rpartition("/")[2]).is_file()
    for picture, target in badges[1:]:
        assert re.fullmatch(r"https://img\.shields\.io/pypi/(v|pyversions|l)/headrace", picture)
        assert re.fullmatch(r"https://(pypi\.org/project|github\.com/headrace)/headrace/.*", target)
