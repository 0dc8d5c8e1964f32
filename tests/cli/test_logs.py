"""`headrace worker --log-format json`."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.conftest import Start


@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_line_is_json_also_of_worker_processes(start: Start, processes: str) -> None:
    worker = start("worker", "shop:app", "-p", processes, "--log-format", "json")
    worker.says("runs default", times=int(processes))
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.output.splitlines()]
    ended = [line for line in lines if "ended: WorkerOutcome" in line["message"]]
    assert len(ended) == int(processes)
    assert all(line["worker"] in line["message"] for line in ended)
