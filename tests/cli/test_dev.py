"""`headrace dev`: one command for all."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import main
from headrace.cli.processes.dev import Sources, dev_processes
from tests.cli.conftest import Start
from tests.cli.programs import Program, eventually, is_alive
from tests.servers import free_port

APP = """
from pathlib import Path
from headrace import Headrace

app = Headrace()

@app.task
async def touch(name: str) -> None:
    Path(name).write_text("{words}")

@app.every(0.2)
async def tick() -> None:
    Path("ticked").touch()
"""


def enqueue(folder: Path, name: str) -> None:
    async def send() -> None:
        async with Headrace(f"sqlite:///{folder}/headrace.db") as app:

            @app.task(name="touch")
            async def touch(name: str) -> None: ...

            await touch.enqueue(str(folder / name))

    asyncio.run(send())


def wrote(path: Path, words: str) -> bool:
    return path.exists() and path.read_text() == words


def offspring(program: Program) -> list[int]:
    children = Path(f"/proc/{program.process.pid}/task").glob("*/children")
    return [int(pid) for path in children for pid in path.read_text().split()]


def test_jobs_schedules_dashboard_and_reload_in_one_command(shop: Path, start: Start) -> None:
    (shop / "mill.py").write_text(APP.format(words="first"))
    port = free_port()
    program = start("dev", "mill:app", "--port", str(port))
    program.says(f":{port}/?token=")
    person, address = visitor_of(program)
    program.says("worker    | ")
    eventually("the schedule ticks", (shop / "ticked").exists)
    enqueue(shop, "one")
    eventually("the job runs", lambda: wrote(shop / "one", "first"))
    eventually("the dashboard answers", lambda: b"Overview" in page(person, address))

    (shop / "mill.py").write_text(APP.format(words="second"))
    program.says("mill.py changed")
    enqueue(shop, "two")
    eventually("the new code runs", lambda: wrote(shop / "two", "second"))
    home = address.partition("?")[0]
    eventually(
        "the dashboard is back, and knows its user", lambda: b"Overview" in page(person, home)
    )

    pids = offspring(program)
    assert len(pids) == 2
    program.send(signal.SIGINT)
    assert program.ended() == 0
    assert "all stopped" in program.output
    assert not any(map(is_alive, pids))


def visitor_of(program: Program) -> tuple[urllib.request.OpenerDirector, str]:
    """Someone who has seen the address of the dashboard, and the address."""
    program.says("dashboard at ")
    address = re.search(r"dashboard at (\S+)", program.output)
    assert address
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor()), address[1]


def test_each_start_and_end_of_a_run_is_a_line(shop: Path, start: Start) -> None:
    (shop / "mill.py").write_text(APP.format(words="first"))
    program = start("dev", "mill:app", "--port", str(free_port()))
    program.says("worker    | ")
    enqueue(shop, "one")
    ends = re.compile(
        r"headrace.runs: touch \S+ attempt 1: started\n(?s:.*)touch \S+ attempt 1: done"
    )
    eventually("it starts and ends in the log", lambda: ends.search(program.output))
    # It is no terminal.
    assert "\x1b" not in program.output
    program.send(signal.SIGINT)
    assert program.ended() == 0


def page(person: urllib.request.OpenerDirector, url: str) -> bytes:
    try:
        with person.open(url, timeout=30) as answer:
            found: bytes = answer.read()
            return found
    except OSError:
        return b""


def test_code_that_does_not_start_is_reported_and_tried_again_when_it_changes(
    shop: Path, start: Start
) -> None:
    (shop / "mill.py").write_text(APP.format(words="first"))
    program = start("dev", "mill:app", "--port", str(free_port()))
    eventually("it works", (shop / "ticked").exists)
    program.says(f"headrace dev: mill:app on sqlite:///{shop}/headrace.db")
    person, home = visitor_of(program)
    eventually("the dashboard answers", lambda: b"Overview" in page(person, home))
    (shop / "mill.py").write_text("def broken(:")
    program.says("mill.py changed, and cannot be loaded:")
    program.says("the dashboard stays, the worker starts again when a file changes")
    program.says("ended after ")
    assert program.output.count("SyntaxError") == 1
    assert b"Overview" in page(person, home)
    eventually("the worker is gone", lambda: len(offspring(program)) == 1)
    (shop / "mill.py").write_text(APP.format(words="mended"))
    program.says("mill.py changed, restarting")
    enqueue(shop, "three")
    eventually("the mended code runs", lambda: wrote(shop / "three", "mended"))
    program.send(signal.SIGINT)
    assert program.ended() == 0


LEAVES_ONE_BEHIND = """
import subprocess
from pathlib import Path
from headrace import Headrace

app = Headrace()

@app.task
async def touch(name: str) -> None:
    Path(name).write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
"""


def test_it_ends_although_something_that_a_job_has_started_does_not(
    shop: Path, start: Start
) -> None:
    (shop / "mill.py").write_text(LEAVES_ONE_BEHIND)
    program = start("dev", "mill:app", "--port", str(free_port()))
    program.says("worker    | ")
    enqueue(shop, "pid")
    eventually("the job runs", lambda: (shop / "pid").exists() and (shop / "pid").read_text())
    left = int((shop / "pid").read_text())
    try:
        program.send(signal.SIGINT)
        assert program.ended() == 0
        assert is_alive(left)
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("drain", [0.0, 5.0, 300.0])
def test_a_worker_is_given_more_time_than_its_drain(drain: float) -> None:
    # Stuck, it ends by itself 15 s after it.
    assert dev_processes("mill:app", 8370, 10, drain).patience > drain + 15


def test_without_its_packages_there_is_no_dashboard_and_dev_says_so(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "dev_app.py").write_text("from headrace import Headrace\napp = Headrace()\n")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    # As if Ctrl-C came at once.
    monkeypatch.setattr("headrace.cli.processes.dev._look_after", lambda *_: None)
    result = CliRunner().invoke(main, ["dev", "dev_app:app", "--port", str(free_port())])
    assert "no dashboard, it needs uvicorn: pip install 'headrace[dashboard]'" in result.output
    assert "http://" not in result.output


def test_what_cannot_work_is_refused_at_once(shop: Path, start: Start) -> None:
    (shop / "mill.py").write_text("from headrace import Headrace\napp = Headrace('memory://')\n")
    program = start("dev", "mill:app")
    assert program.ended() == 2
    assert re.match(r"headrace: a memory:// store is of one process", program.output)
    program = start("dev")
    assert program.ended() == 2
    assert "say which app: headrace dev shop:app" in program.output


def test_worker_and_dashboard_wait_for_a_store_that_is_away(start: Start) -> None:
    away = {"HEADRACE_URL": f"redis://127.0.0.1:{free_port()}/0"}
    program = start("dev", "shop:app", "--port", str(free_port()), **away)
    program.says("the worker waits for its store: Redis cannot be reached")
    program.says("the dashboard waits for its store: Redis cannot be reached")
    program.send(signal.SIGINT)
    assert program.ended() == 0
    assert "the dashboard ended" not in program.output


def test_files_that_are_new_gone_or_different_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.py").write_text("1")
    for passed_over in (".venv", "node_modules", "__pycache__"):
        (tmp_path / passed_over).mkdir()
    sources = Sources(tmp_path, tmp_path / "inner")
    assert sources.changed() == []
    (tmp_path / "a.py").write_text("22")
    (tmp_path / "inner" / "b.py").unlink()
    (tmp_path / "inner" / "c.py").write_text("1")
    (tmp_path / ".venv" / "d.py").write_text("1")
    (tmp_path / "notes.txt").write_text("1")
    assert [path.name for path in sources.changed()] == ["a.py", "b.py", "c.py"]
    assert sources.changed() == []
