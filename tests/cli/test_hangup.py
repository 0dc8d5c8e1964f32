"""SIGHUP, which a terminal sends when it is closed: as SIGTERM, and nothing is left behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.outbox import Outbox
from tests.cli.conftest import Start
from tests.cli.programs import Program, eventually, is_alive
from tests.cli.test_dev import offspring
from tests.cli.test_worker import send
from tests.servers import free_port

PROCESSES = pytest.mark.parametrize("processes", ["1", "2", "1..2"])
LOUD = """

@app.task
async def report(name: str) -> None:
    Path(name).touch()
    while not Path(f"{name}-go").exists():
        await asyncio.sleep(0.02)
    print("a terminal may be gone", flush=True)
    print("on both ways", file=sys.stderr, flush=True)
    Path(f"{name}-done").touch()
"""


class Terminal:
    """A terminal with one program in it, that ends when it is closed."""

    def __init__(self, shop: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self._shown = bytearray()
        self._closing = False
        self.program = Program(
            shop, *arguments, through=["setsid", "--ctty"], terminal=theirs, env={"TERM": "dumb"}
        )
        os.close(theirs)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        # No read is under way when it is closed: that would keep the terminal.
        while not self._closing:
            if select.select([self._ours], [], [], 0.02)[0]:
                try:
                    self._shown += os.read(self._ours, 65536)
                except OSError:
                    return

    def shows(self, text: str, times: int = 1) -> None:
        eventually(f"it shows {text!r}", lambda: self._shown.decode().count(text) >= times)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._listener.join()
            os.close(self._ours)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(shop: Path) -> Iterator[Open]:
    (shop / "shop.py").write_text((shop / "shop.py").read_text() + LOUD)
    opened: list[Terminal] = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(shop, *arguments))
        return opened[-1]

    yield open_one
    for one in opened:
        one.program.clean_up()
        one.close()


def prints_to_nowhere(pid: int) -> bool:
    try:
        return all(os.readlink(f"/proc/{pid}/fd/{number}") == os.devnull for number in (1, 2))
    except OSError:
        return not is_alive(pid)


@PROCESSES
def test_a_closed_terminal_lets_running_jobs_end(
    terminal: Open, shop: Path, processes: str
) -> None:
    screen = terminal("worker", "shop:app", "--drain", "600", "-p", processes)
    screen.shows("runs default, mail", times=int(processes[0]))
    send("report", "begun")
    eventually("the job runs", (shop / "begun").exists)
    pids = offspring(screen.program)
    screen.close()
    # A worker process hears of it from its parent; until then, what a job prints fails.
    workers = pids if processes != "1" else [screen.program.process.pid]
    eventually("they let go of the terminal", lambda: all(map(prints_to_nowhere, workers)))
    (shop / "begun-go").touch()
    assert screen.program.ended() == 0
    assert (shop / "begun-done").exists()
    assert not any(map(is_alive, pids))


@PROCESSES
def test_a_hangup_that_comes_again_hurries_nobody(start: Start, shop: Path, processes: str) -> None:
    worker = start("worker", "shop:app", "--drain", "600", "-p", processes)
    worker.says("runs default, mail", times=int(processes[0]))
    send("hold", "held")
    eventually("the job runs", (shop / "held").exists)
    for _ in range(3):
        worker.send(signal.SIGHUP)
    (shop / "held-go").touch()
    assert worker.ended() == 0
    assert (shop / "held-done").exists()
    assert not any(map(is_alive, worker.children))


@PROCESSES
def test_under_nohup_a_worker_goes_on(shop: Path, processes: str) -> None:
    worker = Program(shop, "worker", "shop:app", "-p", processes, through=["nohup"])
    try:
        worker.says("runs default, mail", times=int(processes[0]))
        for pid in (worker.process.pid, *worker.children):
            os.kill(pid, signal.SIGHUP)
        send("touch", "touched")
        eventually("a job after it has run", (shop / "touched").exists)
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    finally:
        worker.clean_up()


def test_a_hangup_while_the_app_is_imported_ends_the_process(start: Start, shop: Path) -> None:
    (shop / "slow.py").write_text(
        "import time, pathlib\npathlib.Path('importing').touch()\ntime.sleep(1000)\n"
    )
    worker = start("worker", "slow:app")
    eventually("the import has begun", (shop / "importing").exists)
    worker.send(signal.SIGHUP)
    assert worker.ended() == 0


def test_a_closed_terminal_ends_all_of_dev(terminal: Open, shop: Path) -> None:
    screen = terminal("dev", "shop:app", "--port", str(free_port()), "--no-reload")
    screen.shows("runs default, mail")
    screen.shows("headrace dashboard: http")
    pids = offspring(screen.program)
    assert len(pids) == 2
    screen.close()
    assert screen.program.ended() == 0
    assert not any(map(is_alive, pids))


def test_a_closed_terminal_ends_a_dashboard(terminal: Open) -> None:
    screen = terminal("dashboard", "shop:app", "--port", "0")
    screen.shows("headrace dashboard: http")
    screen.close()
    assert screen.program.ended() == 0


def test_a_closed_terminal_ends_a_relay(terminal: Open, shop: Path) -> None:
    app = Headrace()
    outbox = Outbox(app)

    @app.task
    async def touch(name: str) -> None: ...

    with closing(sqlite3.connect(shop / "users.db")) as connection:
        outbox.create(connection)
        outbox.enqueue(connection, touch.call("relayed"))
        connection.commit()

        def sent() -> bool:
            [(rows,)] = connection.execute("SELECT count(*) FROM headrace_outbox").fetchall()
            return bool(rows == 0)

        screen = terminal("outbox", "relay", "shop:app", "--database", "sqlite:///users.db")
        eventually("the row is sent", sent)
    screen.close()
    assert screen.program.ended() == 0
