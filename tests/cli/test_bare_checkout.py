"""The program runs from a checkout that was never installed: `PYTHONPATH=src` is enough."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

import headrace
from tests.cli.programs import LONG, Program

SRC = Path(headrace.__file__).parents[1]


@dataclass
class BareCheckout:
    """A Python that has all packages but ours, which it is given as a folder of sources."""

    python: Path
    env: dict[str, str]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareCheckout:
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = folder / "packages"
    packages.mkdir()
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if "headrace" not in found.name:
            (packages / found.name).symlink_to(found)
    path = os.pathsep.join(map(str, (SRC, packages)))
    return BareCheckout(folder / "venv" / "bin" / "python", {"PYTHONPATH": path})


@pytest.fixture
def worker(shop: Path, bare: BareCheckout) -> Iterator[Program]:
    arguments = ("worker", "shop:app", "--metrics-port", "0", "-p", "2")
    program = Program(shop, *arguments, env=bare.env, python=str(bare.python))
    yield program
    program.clean_up()


def run(bare: BareCheckout, *arguments: str) -> str:
    command = [str(bare.python), *arguments]
    return subprocess.check_output(command, env={**os.environ, **bare.env}, text=True)


def test_it_is_not_installed(bare: BareCheckout) -> None:
    code = "from importlib.metadata import packages_distributions as p; print('headrace' in p())"
    assert run(bare, "-c", code) == "False\n"


def test_the_program_knows_its_version(bare: BareCheckout) -> None:
    assert run(bare, "-m", "headrace", "--version") == f"headrace {version('headrace')}\n"


def test_workers_run_and_are_measured(worker: Program) -> None:
    worker.says("runs default, mail", times=2)
    port = re.search(r"http://127\.0\.0\.1:(\d+)", worker.output)
    assert port, worker.output
    with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=LONG) as answer:
        (built,) = re.findall(r"headrace_build_info{(.+)}", answer.read().decode())
    assert f'version="{version("headrace")}"' in built
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
