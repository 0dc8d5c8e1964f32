"""The tutorial, from its first command to its last: files are written as it shows them, commands
are run as it says, and print what it says, apart from times, ids and the like."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked
from tests.docs.test_docs import ROOT, Block, blocks, environment
from tests.servers import free_port

PAGE = ROOT / "docs" / "tutorial.md"
FINAL = ROOT / "examples" / "tutorial"
LONG = 120.0
SERVERS = ("headrace worker", "headrace dashboard", "uvicorn")
# They ask, and change nothing: repeated until the answer is there.
QUESTIONS = ("headrace jobs", "headrace dead list", "headrace schedules list", "cat", "curl -s")
# With one of these, a command is for a shell.
SHELL = set("|<>$&;*")
NOT_HERE = ("python -m venv", "pip", "printf", "DASHBOARD_AUTH", "export")

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
# What differs from run to run, and stands for what.
VARIES = {
    ID: "ID",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?": "TIME",
    r"worker [\w.-]+-\d+-[0-9a-f]{8}": "WORKER",
    r"sqlite:///\S+/headrace\.db": "STORE",
    r"token=[\w-]+": "token=TOKEN",
    r"(127\.0\.0\.1|[0-9a-f]{16}\.localhost):\d+": "ADDRESS",
    r"\d+ threads, \d+ processes": "THREADS",
    r"in \d+\.\d+s": "in SECONDS",
}


def plain(text: str) -> str:
    for pattern, name in VARIES.items():
        text = re.sub(pattern, name, text)
    return text


def as_python(command: str) -> list[str]:
    """What follows `python` in a command that is the same; nothing if there is none."""
    match shlex.split(command):
        case ["python", *words]:
            return words
        case ["headrace" | "pytest" as program, *words]:
            return ["-m", program, *words]
    return []


class Walk:
    """A reader with several terminals in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[str, str] = {}
        self._servers: dict[str, forked.ForkedProgram] = {}
        self._ports = {"8000": str(free_port()), "8370": str(free_port())}
        inherited = environment({"PYTHONUNBUFFERED": "1"})
        # One of its commands is pytest.
        self._environment = {k: v for k, v in inherited.items() if not k.startswith("PYTEST")}

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def run(self, commands: list[str], said: str) -> None:
        """Run commands; together they print what is said."""
        if commands[0].startswith(SERVERS):
            self._serve(commands[0], said)
            return
        asks = all(command.startswith(QUESTIONS) and " -d " not in command for command in commands)
        ends_at = time.monotonic() + LONG
        while plain(printed := self._output(commands)) != plain(said):
            assert asks, f"{commands}\n{printed}"
            assert time.monotonic() < ends_at, f"{commands}\n{printed}"
            time.sleep(1)
        self._ids.update(zip(re.findall(ID, said), re.findall(ID, printed), strict=True))

    def _output(self, commands: list[str]) -> str:
        parts = [self._one_output(self._mine(command)) for command in commands]
        return "".join(part if not part or part.endswith("\n") else f"{part}\n" for part in parts)

    def _one_output(self, command: str) -> str:
        if (words := as_python(command)) and not set(command) & SHELL:
            env = self._environment
            return forked.run(*words, cwd=self._folder, env=env, timeout=LONG).stdout
        ended = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        return ended.stdout

    def _mine(self, command: str) -> str:
        """With the ids and ports of this walk."""
        for shown, own in (*self._ids.items(), *self._ports.items()):
            command = command.replace(shown, own)
        return command

    def _serve(self, command: str, said: str) -> None:
        words = shlex.split(self._mine(command))
        if words[1] == "dashboard":
            words += ["--port", self._ports["8370"]]
        self.stop(words[0] + words[1])
        log = self._folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as file:
            self._servers[words[0] + words[1]] = forked.start(
                "-m", *words, cwd=self._folder, env=self._environment, output=file
            )
        ends_at = time.monotonic() + LONG
        wanted = set(plain(said).splitlines())
        while not wanted <= set(plain(log.read_text()).splitlines()):
            assert time.monotonic() < ends_at, log.read_text()
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        """As Ctrl-C does."""
        if (server := self._servers.pop(name, None)) is not None:
            server.terminate()
            server.wait(LONG)

    def end(self) -> None:
        for name in tuple(self._servers):
            self.stop(name)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    walk = Walk(tmp_path)
    yield walk
    walk.end()


def answer_to(found: list[Block], number: int) -> str:
    """What is said to be printed by a block of commands."""
    after = found[number + 1 : number + 2]
    return after[0].text if after and after[0].language == "text" else ""


def test_the_tutorial_works_to_its_end(walk: Walk) -> None:
    found = blocks(PAGE)
    for number, block in enumerate(found):
        if block.language == "python":
            assert block.file
            walk.write(block.file, block.text)
        elif block.language == "ini":
            walk.write(block.lines[0].removeprefix("# "), block.text)
        elif block.language == "bash" and not block.lines[0].startswith(NOT_HERE):
            walk.run(list(block.lines), answer_to(found, number))


def test_the_program_at_its_end_is_the_one_in_the_examples() -> None:
    last = {block.file: block.text for block in blocks(PAGE) if block.file}
    for path in FINAL.glob("*.py"):
        assert last[path.name] == path.read_text(), path.name
    (settings,) = (block for block in blocks(PAGE) if block.language == "ini")
    assert settings.text == (FINAL / "pytest.ini").read_text()
    (line,) = re.findall(r"^printf '(.*)' > requirements", PAGE.read_text(), re.MULTILINE)
    assert line.replace("\\n", "\n") == (FINAL / "requirements.txt").read_text()
