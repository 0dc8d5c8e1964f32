"""`import headrace` is cheap: a web server that only sends pays for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Each of these is loaded by what needs it, when it needs it.
LATER = (
    "redis", "hiredis", "click", "sqlite3", "multiprocessing", "pytest", "pydantic", "uvloop",
    "google.protobuf", "opentelemetry", "starlette", "jinja2", "uvicorn", "cronsim", "zoneinfo",
    "hashlib", "pathlib",
)  # fmt: skip
# What an asyncio program with messages loads anyway: the measure of this machine, at this moment.
USUAL = "asyncio, dataclasses, email.message, inspect, logging, msgspec, zoneinfo"
# It is about 1.45.
MOST = 2.0
RUNS = 30

PROGRAM = """
import json, sys, time
begin = time.process_time()
import {what}
spent = time.process_time() - begin
print(json.dumps([spent, sorted(sys.modules)]))
"""


def imported(what: str = "headrace") -> tuple[float, list[str]]:
    """Seconds of CPU that the import took in a fresh interpreter, and what it loaded."""
    program = PROGRAM.format(what=what)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    spent, modules = json.loads(done.stdout)
    return spent, modules


@pytest.mark.parametrize("name", LATER)
def test_importing_headrace_does_not_import(name: str, loaded: frozenset[str]) -> None:
    assert name not in loaded


def test_importing_headrace_loads_no_store_and_no_worker(loaded: frozenset[str]) -> None:
    heavy = ("store.redis", "store.sqlite", "worker.worker", "admin.admin", "testing", "cli")
    assert not loaded & {f"headrace.{name}" for name in heavy}


def test_a_worker_without_a_port_loads_no_server() -> None:
    _, modules = imported("headrace.cli.processes.worker, headrace.store.redis.store")
    assert "http.server" not in modules


def test_importing_headrace_takes_little_time() -> None:
    ours = usual = float("inf")
    for _ in range(RUNS):
        ours, usual = min(ours, imported()[0]), min(usual, imported(USUAL)[0])
        if ours < MOST * usual:
            # On a busy machine one run of either may take far longer than it needs.
            return
    pytest.fail(f"import headrace took {ours:.3f} s of CPU, others {usual:.3f} s")


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    return frozenset(imported()[1])
