"""The documents tell the truth: their programs run, their commands, links and paths exist.

Every Python block is run. The blocks of one page are one program, in their order, on `memory://`,
with the line numbers of the page; where a block defines `main`, it is run at the block's end. What
a block prints is what the `text` block directly below it says: nothing, if there is none. A block
that begins with a file name, such as `# shop.py`, is that file: it is run beside a worker process,
with the commands that the page shows. A `py` block is a program for another queue: it is compiled.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests import forked

from headrace.cli import main as program

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
# What prose mentions: a command of ours, a link, a path of the repository.
COMMAND = r"`headrace ([a-z]+)"
LINK = r"\]\(([^)\s]+)\)"
PATH = r"`([\w./-]+/(?:[\w-]+\.(?:py|lua|md))?)`"
# Lua and SQL are on the page of the wire format, and run by its tests.
LANGUAGES = {"python", "text", "bash", "ini", "yaml", "mermaid", "lua", "sql", "dockerfile"}
# Programs for other queues, which are not installed here: only on the pages for those who use them.
FOREIGN = {"py"}
END = "-- end of block --"
# Far beyond what anything here takes on a slow machine.
LONG = 120.0


@dataclass(frozen=True)
class Block:
    """A fenced block; `first` and `last` are the numbers of the lines with the fences, from 0."""

    language: str
    lines: tuple[str, ...]
    first: int
    last: int

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def file(self) -> str | None:
        named = re.fullmatch(r"# (\w+\.py)", self.lines[0])
        return named[1] if named else None

    @property
    def needs_start(self) -> bool:
        """Whether it defines `main`, and leaves it to others to run it."""
        runs = any(line.startswith("if __name__") for line in self.lines)
        return not runs and any(line.startswith("async def main(") for line in self.lines)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    first = None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if first is None:
            first = number
        else:
            language = lines[first].removeprefix("```")
            found.append(Block(language, tuple(lines[first + 1 : number]), first, number))
            first = None
    assert first is None, f"{named(page)}:{first}: this block has no end"
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    lines = page.read_text().splitlines()
    for block in blocks(page):
        lines[block.first : block.last + 1] = [""] * (block.last + 1 - block.first)
    return "\n".join(lines)


def shown_below(page: Path, block: Block) -> str:
    """What the page says that the block prints."""
    between = page.read_text().splitlines()
    for other in blocks(page):
        if other.first > block.last and other.language == "text":
            return "" if any(between[block.last + 1 : other.first]) else other.text
    return ""


# One program that grows from listing to listing: test_tutorial.py.
WALKED = ROOT / "docs" / "tutorial.md"


def pieces(page: Path) -> list[Block]:
    """The Python blocks that make up the page's own program."""
    return [block for block in blocks(page) if block.language == "python" and not block.file]


def page_program(page: Path) -> str:
    lines = [""] * len(page.read_text().splitlines())
    for block in pieces(page):
        lines[block.first + 1 : block.last] = block.lines
        run = "__import__('asyncio').run(main()); " if block.needs_start else ""
        lines[block.last] = f"if __name__ == '__main__': {run}print({END!r})"
    return "\n".join(lines)


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Ours with the settings, where `python` and `headrace` are those of this process unless the
    settings say otherwise."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**inherited, "PATH": path, **settings}


@pytest.mark.parametrize("page", [page for page in PAGES if pieces(page)], ids=named)
def test_the_blocks_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    file = f"{page.stem.lower()}.py"
    (tmp_path / file).write_text(page_program(page))
    env = environment({"HEADRACE_URL": "memory://"})
    ended = forked.run("-W", "error", file, cwd=tmp_path, env=env, timeout=LONG)
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout.split(f"{END}\n")
    for block, said in zip(pieces(page), printed, strict=False):
        assert said == shown_below(page, block), f"{named(page)}:{block.first + 1}"
    assert printed[len(pieces(page)) :] == [""]


FILES = [
    (page, block)
    for page in PAGES
    if page != WALKED
    for block in blocks(page)
    if block.file and block.language not in FOREIGN
]


@pytest.mark.parametrize("store", ["sqlite", "redis"])
@pytest.mark.parametrize(("page", "block"), FILES, ids=[named(page) for page, _ in FILES])
def test_a_file_runs_as_a_user_would_run_it(
    page: Path, block: Block, store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert block.file
    (tmp_path / block.file).write_text(block.text)
    settings: dict[str, str] = {}
    if store == "redis":
        settings["HEADRACE_URL"] = request.getfixturevalue("redis_url")
        settings["HEADRACE_NAMESPACE"] = request.getfixturevalue("namespace")
    said = next(b for b in blocks(page) if b.first > block.last and b.language == "text").text
    assert printed_beside_a_worker(page, block.file, tmp_path, settings) == said


def printed_beside_a_worker(
    page: Path, file: str, folder: Path, settings: Mapping[str, str]
) -> str:
    """What the file prints while the worker that the page starts runs beside it."""
    app = file.removesuffix(".py")
    (command,) = (c for c in commands(page) if c[:2] == ["worker", f"{app}:app"])
    assert f"python {file}" in page.read_text()
    env = environment(settings)
    with (folder / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            ["headrace", *command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        ended = subprocess.run(
            ["python", "-W", "error", file],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        worker.terminate()
        assert worker.wait(LONG) == 0
        return ended.stdout
    finally:
        worker.kill()
        worker.wait(LONG)


def test_there_is_a_file_to_run_in_the_readme() -> None:
    assert [block.file for page, block in FILES if page.name == "README.md"] == ["shop.py"]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_block_is_of_a_known_kind_so_that_none_escapes(page: Path) -> None:
    foreign = FOREIGN if page.name.startswith("coming-from-") else set()
    assert {block.language for block in blocks(page)} <= LANGUAGES | foreign


def test_programs_for_other_queues_are_programs() -> None:
    foreign = [block for page in PAGES for block in blocks(page) if block.language in FOREIGN]
    assert foreign
    for block in foreign:
        assert "headrace" not in block.text
        compile(block.text, block.file or "before.py", "exec")


def shell_lines(page: Path) -> Iterator[str]:
    for block in blocks(page):
        if block.language in ("bash", "ini"):
            yield from (line.partition(" #")[0].strip() for line in block.lines)


def commands(page: Path) -> list[list[str]]:
    """The arguments of each `headrace …` that the page shows."""
    found = (re.search(r"(?:^|[\s/])headrace ([a-z].*)$", line) for line in shell_lines(page))
    return [shlex.split(match[1]) for match in found if match]


def resolved(words: list[str]) -> tuple[list[str], click.Command, list[str]]:
    """The names of a command, the command, and its arguments."""
    names: list[str] = []
    command: click.Command = program
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(
            click.Context(command, **program.context_settings), words
        )
        assert name is not None
        assert found is not None
        names.append(name)
        command = found
    return names, command, words


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=named)
def test_commands_exist_and_take_what_is_shown(page: Path) -> None:
    for words in commands(page):
        names, command, arguments = resolved(words)
        assert CliRunner().invoke(program, [*names, "--help"]).exit_code == 0
        # With the settings that it inherits: a command keeps the help option of its first context.
        command.make_context(names[-1], arguments, **program.context_settings)


def test_the_pages_have_what_is_looked_for_in_them() -> None:
    """So that no test below passes for having found nothing."""
    texts = [prose(page) for page in PAGES]
    for pattern in (COMMAND, LINK, PATH):
        assert sum(bool(re.search(pattern, text)) for text in texts) > len(PAGES) // 4, pattern


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_that_are_mentioned_exist(page: Path) -> None:
    for name in re.findall(COMMAND, prose(page)):
        assert program.get_command(click.Context(program, **program.context_settings), name), name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join([*shell_lines(page), *re.findall(r"`(make [^`]+)`", prose(page))])
    for words in re.findall(r"^make ([a-z -]+)", text, re.MULTILINE):
        assert set(words.split()) <= targets


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(LINK, prose(page)):
        if link.startswith("https://"):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_paths_that_are_mentioned_exist(page: Path) -> None:
    for path in re.findall(PATH, prose(page)):
        places = (ROOT / path, ROOT / "src" / "headrace" / path)
        assert any(place.exists() for place in places), path
