"""A program that runs a worker beside its own code ends when that code does: `asyncio.run` then
cancels every task of the loop, those of the worker among them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, State
from tests import forked
from tests.faults.crew import LONG
from tests.worker.states import until

PROGRAM = """
import asyncio
import logging
import os
import sys
import time

from headrace import Headrace

app = Headrace(lease=5.0)


@app.task(run_in="process")
def double(n: int) -> int:
    return 2 * n


@app.task
def hold(path: str) -> None:
    open(path, "w").close()
    while len(open(path).read()) == 0:
        time.sleep(0.01)


@app.task
async def wait(path: str) -> None:
    open(path, "w").close()
    await asyncio.sleep(3600)


async def sent() -> None:
    if sys.argv[2] == "cuts":
        print("sent", (await wait.enqueue(sys.argv[3])).id, flush=True)
        while not os.path.exists(sys.argv[3]):
            await asyncio.sleep(0.01)
        return
    job = await double.enqueue(21)
    print("result", await job.result(timeout=60), flush=True)
    if sys.argv[2] == "fails":
        raise SystemError("the main function fails")
    if sys.argv[2] == "leaves":
        await hold.enqueue(sys.argv[3])
        while not os.path.exists(sys.argv[3]):
            await asyncio.sleep(0.01)
        return
    await asyncio.sleep(3600)


async def main() -> None:
    async with app:
        if sys.argv[1] == "task":
            working = asyncio.create_task(app.worker().run())
            await sent()
        else:
            async with app.worker():
                await sent()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
"""


class Program:
    """The program above on one store, and what it has printed so far."""

    def __init__(self, folder: Path, url: str, namespace: str) -> None:
        self._script = folder / "program.py"
        self._script.write_text(PROGRAM)
        self._env = {
            **os.environ,
            "HEADRACE_URL": url,
            "HEADRACE_NAMESPACE": namespace,
            "PYTHONPATH": str(forked.ROOT),
        }
        self._output = folder / "output.txt"
        self._running: forked.ForkedProgram | None = None

    def start(self, *arguments: str) -> forked.ForkedProgram:
        script, cwd = str(self._script), self._script.parent
        with self._output.open("wb") as output:
            self._running = forked.start(
                script, *arguments, cwd=cwd, env=self._env, output=output, session=True
            )
        return self._running

    @property
    def printed(self) -> str:
        return self._output.read_text()

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()


@pytest.fixture
def program(tmp_path: Path, store_url: str, namespace: str) -> Iterator[Program]:
    program = Program(tmp_path, store_url, namespace)
    yield program
    program.close()


@pytest.mark.parametrize("worker", ["task", "block"])
def test_a_program_with_a_worker_ends_when_its_main_function_fails(
    program: Program, worker: str
) -> None:
    code = program.start(worker, "fails").wait(LONG)
    assert code == 1, program.printed
    assert "SystemError: the main function fails" in program.printed
    assert ": clean; 0 failed attempts" in program.printed


@pytest.mark.parametrize("worker", ["task", "block"])
def test_ctrl_c_ends_a_program_with_a_worker(program: Program, worker: str) -> None:
    running = program.start(worker, "waits")
    _wait_for(program, "result 42")
    running.send_signal(signal.SIGINT)
    # `asyncio.run` raises KeyboardInterrupt, of which Python dies by the signal's own hand.
    assert running.wait(LONG) in (-signal.SIGINT, 1), program.printed
    assert ": clean; 0 failed attempts" in program.printed


def test_what_runs_when_the_main_function_ends_is_settled(program: Program, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = program.start("task", "leaves", str(gate))
    _wait_for(program, "it waits up to")
    gate.write_text("open")
    assert running.wait(LONG) == 0, program.printed
    assert ": clean; 0 failed attempts" in program.printed


@pytest.mark.parametrize("turns", [0, 3, 10, 30])
def test_a_program_ends_though_its_worker_was_stopping_when_all_was_cancelled(
    caplog: pytest.LogCaptureFixture, turns: int
) -> None:
    """As after a second Ctrl-C: the task that stops the worker is cancelled too."""
    app = Headrace("memory://")
    begun = asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    worker = app.worker()

    async def main() -> None:
        working = asyncio.create_task(worker.run())
        await hold.enqueue()
        await begun.wait()
        worker.stop()
        await until(lambda: "it waits up to" in caplog.text)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not working.done()

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert worker.outcome is not None
    assert worker.outcome.crashes == worker.outcome.lost_leases == 0
    assert "did not end well" not in caplog.text


async def test_what_is_cut_short_when_the_main_function_ends_is_handed_back(
    program: Program, tmp_path: Path, store_url: str, namespace: str
) -> None:
    running = program.start("task", "cuts", str(tmp_path / "gate"))
    assert running.wait(LONG) == 0, program.printed
    assert ": clean; 0 failed attempts" in program.printed
    (id,) = re.findall("^sent (.*)$", program.printed, re.MULTILINE)
    async with Headrace(store_url, namespace=namespace) as app:
        info = await app.job(id).info()
    assert (info.state, info.attempts) == (State.WAITING, ())


def _wait_for(program: Program, text: str) -> None:
    ends_at = time.monotonic() + LONG
    while text not in program.printed:
        assert time.monotonic() < ends_at, program.printed
        time.sleep(0.02)
