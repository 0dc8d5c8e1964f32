"""Signals that people send to a worker beside SIGTERM: none ends it with its jobs leased."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.cli.programs import Program, eventually
from tests.cli.test_worker import send

PROCESSES = pytest.mark.parametrize("processes", ["1", "2"])
# How `faulthandler` begins the stack of the thread that it is in.
STACKS = "(most recent call first)"


@PROCESSES
def test_sigquit_lets_running_jobs_end(start: Start, shop: Path, processes: str) -> None:
    worker = start("worker", "shop:app", "--drain", "600", "-p", processes)
    worker.says("runs default, mail", times=int(processes))
    send("hold", "begun")
    eventually("the job runs", (shop / "begun").exists)
    worker.send(signal.SIGQUIT)
    worker.says("takes no more jobs")
    (shop / "begun-go").touch()
    assert worker.ended() == 0, worker.output
    assert (shop / "begun-done").exists()


def test_a_second_sigquit_hurries(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app", "--drain", "600")
    worker.says("runs default, mail")
    send("hold", "begun")
    eventually("the job runs", (shop / "begun").exists)
    worker.send(signal.SIGQUIT)
    worker.says("takes no more jobs")
    worker.send(signal.SIGQUIT)
    assert worker.ended() == 3, worker.output


def shows_when_asked(worker: Program, text: str) -> None:
    """Asked again and again: processes that print at the same time cut each other's lines."""

    def shown() -> bool:
        if text not in worker.output:
            worker.send(signal.SIGUSR1)
            time.sleep(0.2)
        return text in worker.output

    eventually(f"it shows {text!r}", shown)


@PROCESSES
def test_sigusr1_shows_what_each_thread_does_and_ends_nothing(
    start: Start, shop: Path, processes: str
) -> None:
    worker = start("worker", "shop:app", "-p", processes)
    worker.says("runs default, mail", times=int(processes))
    send("stuck", "begun")
    eventually("the job runs", (shop / "begun").exists)
    # The function that does not end, in whichever process has it.
    for text in (STACKS, 'shop.py", line', "in stuck"):
        shows_when_asked(worker, text)
    if processes == "2":
        shows_when_asked(worker, "in _supervise")
    send("touch", "after")
    eventually("it goes on", (shop / "after").exists)
    assert "was killed" not in worker.output


def test_worker_processes_that_start_survive_sigusr1(start: Start, shop: Path) -> None:
    parent = start("worker", "shop:app", "-p", "2")
    parent.says("started", times=2)
    parent.send(signal.SIGUSR1)
    # The parent has passed it on while their interpreters start.
    parent.says("in _supervise")
    parent.says("runs default, mail")
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0, parent.output
    assert "was killed by SIGUSR1" not in parent.output
