"""`headrace workers`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from click.testing import CliRunner

from headrace.cli import main
from tests.cli.conftest import Start
from tests.cli.programs import eventually


def test_a_worker_is_listed_while_it_runs(shop: Path, start: Start) -> None:
    worker = start("worker", "shop:app", "-Q", "mail=3,default=1", "-c", "7")

    def listed() -> list[str]:
        result = CliRunner().invoke(main, ["workers", "--namespace", "shop"])
        return result.stdout.splitlines()[1:]

    eventually("a worker is listed", lambda: (shop / "headrace.db").exists() and listed())
    (row,) = listed()
    assert "mail=3,default=1" in row
    result = CliRunner().invoke(main, ["workers", "list", "--namespace", "shop", "--json"])
    (worker_json,) = json.loads(result.stdout)
    assert (worker_json["queues"], worker_json["concurrency"]) == ({"mail": 3, "default": 1}, 7)
    assert worker_json["pid"] == worker.process.pid
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    result = CliRunner().invoke(main, ["workers", "--namespace", "shop"])
    assert result.stdout == "no workers are running\n"


def test_a_worker_is_stopped_by_its_name(shop: Path, start: Start) -> None:
    worker = start("worker", "shop:app")
    run = CliRunner().invoke

    def listed() -> list[dict[str, object]]:
        result = run(main, ["workers", "list", "--namespace", "shop", "--json"])
        found: list[dict[str, object]] = json.loads(result.stdout)
        return found

    eventually("a worker is listed", lambda: (shop / "headrace.db").exists() and listed())
    name = str(listed()[0]["name"])
    result = run(main, ["workers", "stop", "--namespace", "shop", name])
    assert (result.exit_code, result.stdout) == (0, f"asked worker {name} to stop\n")
    assert worker.ended() == 0
    result = run(main, ["workers", "stop", "--namespace", "shop", name])
    assert result.exit_code == 1
    assert f"no worker '{name}' is running" in result.stderr
