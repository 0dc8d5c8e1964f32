"""When a worker is said to live and to be ready, and why not."""

from __future__ import annotations

import json
import re
import time

import pytest

from headrace import Headrace
from headrace.exposition import health
from headrace.exposition.endpoints import worker_endpoints
from headrace.metrics.totals import Presence, Totals, TotalsSnapshot
from tests.servers import RedisServer

WELL = Presence("working")


def snapshot(presence: Presence = WELL, ago: float = 0.0) -> TotalsSnapshot:
    return TotalsSnapshot(1, time.monotonic() - ago, presence=presence)


@pytest.mark.parametrize(
    ("presence", "why"),
    [
        (WELL, []),
        (Presence(), []),
        (Presence("stopping"), []),
        (Presence("working", blocked=3.0), []),
        (Presence("working", blocked=40.0), ["the event loop has been blocked for 40 s"]),
        (Presence("working", silent=99.0), ["the heartbeat has been silent for 99 s"]),
        (
            Presence("working", broken=["the consumer of jobs"]),
            ["the consumer of jobs has failed"],
        ),
    ],
)
def test_a_worker_lives_unless_it_is_stuck(presence: Presence, why: list[str]) -> None:
    assert health.liveness_problems(presence) == why


def test_a_worker_is_ready_while_it_takes_jobs_and_the_store_answers() -> None:
    assert health.readiness_problems(WELL, "") == []
    assert health.readiness_problems(Presence(), "") == [
        "the worker is starting and takes no jobs yet"
    ]
    stops = "the worker is stopping and takes no more jobs"
    assert health.readiness_problems(Presence("stopping"), "") == [stops]
    assert health.readiness_problems(WELL, "gone") == ["the store cannot be reached: gone"]


def test_a_parent_lives_while_its_processes_report() -> None:
    assert health.supervisor_liveness_problems({1: 5.0}, {}) == []
    assert health.supervisor_liveness_problems({1: 5.0}, {1: snapshot()}) == []
    assert health.supervisor_liveness_problems({}, {1: snapshot()}) == [
        "no worker process is alive"
    ]
    (stale,) = health.supervisor_liveness_problems({1: 99.0}, {1: snapshot(ago=30)})
    assert stale == "worker process 1: no totals written for 30 s"
    (mute,) = health.supervisor_liveness_problems({1: 99.0}, {})
    assert mute == "worker process 1: no totals written since it was started 99 s ago"


def test_a_parent_is_ready_when_one_process_is() -> None:
    starting = snapshot(Presence())
    assert (
        health.supervisor_readiness_problems({1: 1.0, 2: 1.0}, {1: snapshot(), 2: starting}, "")
        == []
    )
    why = health.supervisor_readiness_problems({2: 1.0}, {2: starting}, "")
    assert why == ["no worker process takes jobs"]


def test_troubles_are_reported_as_json_with_503() -> None:
    well, ill = health.response([]), health.response(["it is stuck"])
    assert (well.status, json.loads(well.body)) == (200, {"ok": True, "reasons": []})
    assert (ill.status, json.loads(ill.body)) == (503, {"ok": False, "reasons": ["it is stuck"]})


def test_a_probe_asks_the_store_little_however_much_it_holds(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_MAX_AGE", 0.0)
    app = Headrace(redis_server.url)
    for number in range(300):
        app.topic(f"topic-{number}", int)
    totals = Totals()
    totals.presence = lambda: WELL
    endpoints = worker_endpoints(app, totals)
    assert endpoints.readyz({}).status == 200
    redis_server.ask("CONFIG", "RESETSTAT")
    assert endpoints.readyz({}).status == 200
    counted: bytes = redis_server.ask("INFO", "commandstats")
    calls = [int(n) for n in re.findall(rb"calls=(\d+)", counted)]
    assert 0 < sum(calls) < 10
    app.portal.close()
