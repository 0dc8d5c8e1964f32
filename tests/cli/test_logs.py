"""What commands log: as JSON, and for people, whatever it holds."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.log_colours import LogPainter
from headrace.cli.logs import ColourFormatter, VisibleFormatter
from tests.cli.conftest import Start
from tests.servers import free_port


@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_line_is_json_also_of_worker_processes(start: Start, processes: str) -> None:
    worker = start("worker", "shop:app", "-p", processes, "--log-format", "json")
    worker.says("runs default", times=int(processes))
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.output.splitlines()]
    ended = [line for line in lines if " ended after " in line["message"]]
    assert len(ended) == int(processes)
    assert all(line["worker"] in line["message"] for line in ended)


def logged(text: str, *, error: Exception | None = None) -> str:
    record = logging.LogRecord("shop", logging.ERROR, "shop.py", 1, "%s", (text,), None)
    if error is not None:
        try:
            raise error
        except type(error):
            record.exc_info = sys.exc_info()
    return VisibleFormatter("%(levelname)s %(message)s").format(record)


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x07", "\x9b31m", "\u202e", "\r", "\x00", "\u200b"])
def test_nothing_in_a_log_steers_a_terminal(sign: str) -> None:
    for text in (logged(f"a{sign}b"), logged("a", error=ValueError(f"a{sign}b"))):
        assert sign not in text
        assert ascii(sign)[1:-1] in text


def test_no_text_looks_like_a_line_of_its_own() -> None:
    text = logged("first\nERROR forged", error=ValueError("a\nERROR forged too"))
    assert [line for line in text.split("\n") if line.startswith("ERROR")] == ["ERROR first"]
    assert "\n  Traceback (most recent call last):" in text


@pytest.mark.parametrize(
    ("logger", "level", "text", "colour"),
    [
        ("headrace.worker", logging.INFO, "it runs", None),
        ("headrace.worker", logging.WARNING, "it failed", "33"),
        ("headrace.worker", logging.ERROR, "it is dead", "31"),
        ("headrace.runs", logging.INFO, "add 1 attempt 1: started", "36"),
        ("headrace.runs", logging.INFO, "add 1 attempt 1: done after 0.1 ms", "32"),
        ("headrace.runs", logging.INFO, "add 1 attempt 1: failed with OSError after 1 ms", "33"),
    ],
)
def test_colours_say_what_a_line_is_about(
    logger: str, level: int, text: str, colour: str | None
) -> None:
    line = ColourFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s").format(
        logging.LogRecord(logger, level, "shop.py", 1, "%s", (f"\x1b[31m{text}",), None)
        if colour is None
        else logging.LogRecord(logger, level, "shop.py", 1, "%s", (text,), None)
    )
    if colour is None:
        assert "\x1b" not in line
        return
    assert line.startswith(f"\x1b[{colour}m")
    assert line.endswith("\x1b[0m")
    # `headrace dev` has only the text.
    plain = line.removeprefix(f"\x1b[{colour}m").removesuffix("\x1b[0m")
    painter = LogPainter()
    assert painter.painted(plain) == line
    assert painter.painted("  goes on") == f"\x1b[{colour}m  goes on\x1b[0m"
    assert painter.painted("printed by a task") == "printed by a task"


LOUD = r"""
import logging
from headrace import Headrace

app = Headrace()
EVIL = "\x1b]0;owned\x07\x1b[2J and\n2026-01-01 INFO forged"


@app.every(0.1)
async def tick() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        logging.getLogger("loud").exception("failed over %s", EVIL)


print("\x1b[2Jwiped", flush=True)
"""


def test_what_a_handler_raises_reaches_no_terminal_as_it_is(shop: Path, start: Start) -> None:
    (shop / "loud.py").write_text(LOUD.partition("print(")[0])
    worker = start("worker", "loud:app")
    worker.says("ValueError: ")
    worker.send(signal.SIGTERM)
    worker.ended()
    assert "\x1b" not in worker.output
    assert "\x07" not in worker.output
    assert r"failed over \x1b]0;owned\x07" in worker.output
    assert not [line for line in worker.output.splitlines() if line.startswith("2026-01-01")]


def test_what_a_program_prints_is_visible_in_dev(shop: Path, start: Start) -> None:
    (shop / "loud.py").write_text(LOUD)
    dev = start("dev", "loud:app", "--port", str(free_port()), "--no-reload")
    dev.says(r"worker    | \x1b[2Jwiped")
    dev.says(r"  ValueError: \x1b]0;owned\x07")
    dev.send(signal.SIGTERM)
    dev.ended()
    # The first is what the command itself prints when it imports the app, as any program does.
    assert dev.output.count("\x1b") == 1


FAILING = """
from headrace import Headrace, Retry

app = Headrace()

@app.task(retry=Retry(2, base=0.0))
async def on_loop() -> None:
    raise ValueError("on the loop")

@app.task(retry=Retry(2, base=0.0))
def in_thread() -> None:
    raise ValueError("in a thread")

@app.task(retry=Retry(2, base=0.0), run_in="process")
def in_process() -> None:
    raise ValueError("in a process")

if __name__ == "__main__":
    for task in (on_loop, in_thread, in_process):
        task.enqueue_sync()
"""


@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_kind_of_worker_logs_what_failed_wherever_it_ran(
    shop: Path, start: Start, processes: str
) -> None:
    (shop / "mill.py").write_text(FAILING)
    subprocess.run([sys.executable, "mill.py"], cwd=shop, check=True)
    worker = start("worker", "mill:app", "-p", processes)
    for task, text in (
        ("on_loop", "on the loop"),
        ("in_thread", "in a thread"),
        ("in_process", "in a process"),
    ):
        worker.says(f"failed, attempt 1 of 2, next try at once: ValueError: {text}")
        worker.says(f"is dead (retries_exhausted) after attempt 2 of 2: ValueError: {text}")
        worker.says(f'    raise ValueError("{text}")')
        assert f" WARNING headrace.worker: {task} " in worker.output
        assert f" ERROR   headrace.worker: {task} " in worker.output
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
