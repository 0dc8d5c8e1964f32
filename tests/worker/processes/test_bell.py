"""A worker is woken for several results at a time, and misses none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.worker.processes import bell
from headrace.worker.processes.bell import Bell, BellRope
from tests.worker.processes.pool_tasks import AwaitedPool, echo, hold, note


def rung(bell: Bell) -> int:
    """How often it was rung since the last look."""
    try:
        return len(os.read(bell.reader, 100))
    except BlockingIOError:
        return 0


def test_it_rings_for_several_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell, "_PAUSE", 600.0)
    ours = Bell()
    rope = BellRope(ours.writer)
    rope.ring()
    assert rung(ours) == 1
    for _ in range(15):
        rope.count(100)
    assert rung(ours) == 0
    rope.count(100)
    assert rung(ours) == 1
    rope.rest()
    assert rung(ours) == 0
    rope.count(1 << 16)
    assert rung(ours) == 1
    rope.count(100)
    rope.rest()
    assert rung(ours) == 1
    ours.give_away()
    ours.close()


def test_it_rings_for_one_result_after_a_while() -> None:
    ours = Bell()
    rope = BellRope(ours.writer)
    rope.count(100)
    assert rung(ours) == 1
    ours.give_away()
    assert not ours.hear()
    ours.close()


def test_a_worker_that_does_not_listen_stops_no_process() -> None:
    ours = Bell()
    rope = BellRope(ours.writer)
    for _ in range(100_000):
        rope.ring()
    assert ours.hear()
    ours.give_away()
    ours.close()


async def test_a_result_is_known_while_the_next_run_goes_on(tmp_path: Path) -> None:
    """Although the process has no time to say so."""
    pool = AwaitedPool()
    await pool.end_of(pool.start(echo.call(b"")))
    short = [pool.start(note.call(str(tmp_path), str(number))) for number in range(5)]
    long = pool.start(hold.call(str(tmp_path)))
    for run in short:
        assert isinstance(await pool.end_of(run), bytes)
    assert long in pool
    await pool.close()
