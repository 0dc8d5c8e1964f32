"""A process that has or had a worker may fork."""

from __future__ import annotations

import os
from pathlib import Path

from tests import forked
from tests.faults.crew import LONG

PROGRAM = """
import asyncio
import os
import signal
import threading

from headrace import Headrace

app = Headrace("memory://")
loops = []


@app.task
def nothing():
    pass


async def begin_and_end():
    loops.append(asyncio.get_running_loop())
    async with app.worker():
        pass


def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def fork_and_come_back():
    async with app.worker():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR2, lambda: print("taken for the worker's"))
        child = os.fork()
        if not child:
            wakes = signal.set_wakeup_fd(-1)
            print("wake-up descriptor is", wakes, flush=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not child:
            print("the child came back", flush=True)
            os._exit(9)
        print("it ended with", code_of(child), flush=True)
        # From a thread, whose child has no way back to the loop.
        def fork_here():
            child = os.fork()
            if not child:
                os._exit(5)
            print("in a thread it ended with", code_of(child), flush=True)
        await asyncio.to_thread(fork_here)


for _ in range(5):
    asyncio.run(begin_and_end())
child = os.fork()
if not child:
    os._exit(7)
print("afterwards it ended with", code_of(child), flush=True)
asyncio.run(fork_and_come_back(), debug=True)
"""


def test_forks_during_and_after_a_worker_say_nothing_and_go_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(forked.ROOT)}
    ended = forked.run(str(tmp_path / "program.py"), cwd=tmp_path, env=env, timeout=LONG)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "afterwards it ended with 7",
        "wake-up descriptor is -1",
        "it ended with 0",
        "in a thread it ended with 5",
    ]
    assert ended.stderr == ""
