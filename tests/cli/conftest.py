"""A small shop to run commands on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.worker.processes.signals import DUMP, ending_signals
from tests.cli.programs import Program

SHOP = '''
"""What the workers in these tests run. Facts are told by files: they need no clock."""
import asyncio
import os
import sys
import time
from pathlib import Path

from headrace import Headrace, Retry

app = Headrace(namespace="shop")


@app.task
async def touch(name: str) -> None:
    Path(name).touch()


@app.task
async def reveal(name: str) -> None:
    Path(name).write_text(" ".join(os.environ))


@app.task(queue="mail", retry=Retry(1))
async def fail(text: str) -> None:
    raise ValueError(text)


@app.task
async def hold(name: str) -> None:
    Path(name).touch()
    while not Path(f"{name}-go").exists():
        await asyncio.sleep(0.02)
    Path(f"{name}-done").touch()


@app.task
def stuck(name: str) -> None:
    Path(name).touch()
    while True:
        time.sleep(1)


@app.task
async def spill(name: str) -> None:
    """Leaves a task behind that raises what asyncio lets out of the loop."""
    async def leak() -> None:
        raise {"exit": SystemExit(9), "interrupt": KeyboardInterrupt()}[name]

    asyncio.create_task(leak())
    await asyncio.sleep(0.05)
'''

Start = Callable[..., Program]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Commands that are run in this process leave its signals as they were: programs that it starts
    later would ignore those that it ignores."""
    before = {number: signal.getsignal(number) for number in (*ending_signals(), DUMP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def imports_are_forgotten(tmp_path: Path) -> Iterator[None]:
    """What a command imports from the directory of a test would be there for the next one."""
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(str(place).startswith(str(tmp_path)) for place in places):
            del sys.modules[name]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports_are_forgotten: None) -> Path:
    """A directory with shop.py, which is also where this process is."""
    (tmp_path / "shop.py").write_text(SHOP)
    for name in ("HEADRACE_URL", "HEADRACE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(shop: Path) -> Iterator[Start]:
    """Starts `headrace …` in the shop; what still runs after the test is ended."""
    programs: list[Program] = []

    def start_one(*arguments: str, **env: str) -> Program:
        programs.append(Program(shop, *arguments, env=env))
        return programs[-1]

    yield start_one
    for program in programs:
        program.clean_up()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports_are_forgotten: None) -> Path:
    """An empty directory to import from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("HEADRACE_URL", "HEADRACE_NAMESPACE", "HEADRACE_INCLUDE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
