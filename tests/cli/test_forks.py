"""Functions of tasks may fork: what they fork has the signals of a program of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.cli.programs import eventually
from tests.cli.test_worker import send

FORKING = """
import multiprocessing
import os
import signal


def in_child(name: str) -> None:
    kinds = {"term": signal.SIGTERM, "int": signal.SIGINT, "quit": signal.SIGQUIT}
    kinds |= {"hup": signal.SIGHUP, "usr1": signal.SIGUSR1}
    found = {
        **{kind: signal.getsignal(number) for kind, number in kinds.items()},
        "fd": signal.set_wakeup_fd(-1),
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    }
    default = {"int": signal.default_int_handler, "fd": -1, "mask": set()}
    if found["hup"] is signal.SIG_IGN:
        # As under nohup, which a fresh program takes over.
        del found["hup"]
    odd = {kind: each for kind, each in found.items()
           if each != default.get(kind, signal.SIG_DFL)}
    Path(name).write_text(repr(odd))


def fork(name: str) -> None:
    child = os.fork()
    if not child:
        try:
            in_child(f"{name}.part")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.rename(f"{name}.part", name)


def pool(name: str) -> None:
    # Ended at once: a child may still be on its way.
    for _ in range(8):
        workers = multiprocessing.get_context("fork").Pool(2)
        workers.terminate()
        workers.join()
    Path(name).touch()


@app.task
def fork_thread(name: str) -> None:
    fork(name)


@app.task
async def fork_loop(name: str) -> None:
    fork(name)


@app.task(run_in="process")
def fork_process(name: str) -> None:
    fork(name)


@app.task
def pool_thread(name: str) -> None:
    pool(name)


@app.task
async def pool_loop(name: str) -> None:
    pool(name)


@app.task(run_in="process")
def pool_process(name: str) -> None:
    pool(name)
"""


@pytest.fixture(autouse=True)
def forking(shop: Path) -> None:
    (shop / "shop.py").write_text((shop / "shop.py").read_text() + FORKING)


def test_a_forked_child_has_the_signals_of_a_fresh_program(start: Start, shop: Path) -> None:
    worker = start("worker", "shop:app")
    for place in ("thread", "loop", "process"):
        send(f"fork_{place}", place)
        eventually(f"it forked in the {place}", (shop / place).exists, within=20)
        assert (shop / place).read_text() == "{}", place
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


@pytest.mark.parametrize("place", ["thread", "loop", "process"])
def test_a_pool_in_a_task_ends_when_it_is_terminated(start: Start, shop: Path, place: str) -> None:
    worker = start("worker", "shop:app")
    send(f"pool_{place}", place)
    eventually("all pools have ended", (shop / place).exists, within=40)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
