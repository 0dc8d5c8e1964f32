"""When a worker is said to live and to be ready, and why not."""

from __future__ import annotations

import json
import re
import time

import pytest

from headrace import Headrace
from headrace.exposition import health, store_probe
from headrace.exposition.endpoints import pages_of_worker
from headrace.metrics.totals import Presence, Snapshot, Totals
from tests.servers import RedisServer

WELL = Presence("working")


def snapshot(presence: Presence = WELL, ago: float = 0.0) -> Snapshot:
    return Snapshot(1, time.monotonic() - ago, presence=presence)


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
            ["the consumer of jobs works no more"],
        ),
    ],
)
def test_a_worker_lives_unless_it_is_stuck(presence: Presence, why: list[str]) -> None:
    assert health.why_not_alive(presence) == why


def test_a_worker_is_ready_while_it_takes_jobs_and_the_store_answers() -> None:
    assert health.why_not_ready(WELL, "") == []
    assert health.why_not_ready(Presence(), "") == ["the worker has not begun to take jobs"]
    stops = "the worker stops, and takes no more jobs"
    assert health.why_not_ready(Presence("stopping"), "") == [stops]
    assert health.why_not_ready(WELL, "gone") == ["the store cannot be reached: gone"]


def test_a_parent_lives_while_its_processes_tell_of_themselves() -> None:
    assert health.why_crew_not_alive({1: 5.0}, {}) == []
    assert health.why_crew_not_alive({1: 5.0}, {1: snapshot()}) == []
    assert health.why_crew_not_alive({}, {1: snapshot()}) == ["no worker process lives"]
    (stale,) = health.why_crew_not_alive({1: 99.0}, {1: snapshot(ago=30)})
    assert stale == "worker process 1: it has told nothing for 30 s"
    (mute,) = health.why_crew_not_alive({1: 99.0}, {})
    assert mute == "worker process 1: it has told nothing since it was started 99 s ago"


def test_a_parent_is_ready_when_one_process_is() -> None:
    starting = snapshot(Presence())
    assert health.why_crew_not_ready({1: 1.0, 2: 1.0}, {1: snapshot(), 2: starting}, "") == []
    why = health.why_crew_not_ready({2: 1.0}, {2: starting}, "")
    assert why == ["no worker process takes jobs"]


def test_troubles_are_told_as_json_with_503() -> None:
    well, ill = health.page([]), health.page(["it is stuck"])
    assert (well.status, json.loads(well.body)) == (200, {"ok": True, "reasons": []})
    assert (ill.status, json.loads(ill.body)) == (503, {"ok": False, "reasons": ["it is stuck"]})


def test_a_probe_asks_the_store_little_however_much_it_holds(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_probe, "_FRESH", 0.0)
    app = Headrace(redis_server.url)
    for number in range(300):
        app.topic(f"topic-{number}", int)
    totals = Totals()
    totals.presence = lambda: WELL
    pages = pages_of_worker(app, totals)
    assert pages.readyz({}).status == 200
    redis_server.ask("CONFIG", "RESETSTAT")
    assert pages.readyz({}).status == 200
    counted: bytes = redis_server.ask("INFO", "commandstats")
    calls = [int(n) for n in re.findall(rb"calls=(\d+)", counted)]
    assert 0 < sum(calls) < 10
    app.portal.close()
