"""What becomes of a function's result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.job.outcome import DONE, Done, Outcome
from headrace.core.job.verdict import decode_verdict
from headrace.worker.consume.settler import Settler


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> dict[str, Outcome]:
    """The outcome of each task that has run."""
    outcomes: dict[str, Outcome] = {}
    put = Settler.put

    def noted(self: Settler, delivery: Any, outcome: Outcome) -> None:
        outcomes[delivery.task] = outcome
        put(self, delivery, outcome)

    monkeypatch.setattr(Settler, "put", noted)
    return outcomes


async def test_nothing_is_kept_as_long_as_each_task_says(
    app: Headrace, settled: dict[str, Outcome]
) -> None:
    for name, ttl in (("brief", 30), ("long", 60), ("again", 60), ("none", 0)):

        @app.task(name=name, result_ttl=ttl)
        async def nothing() -> None: ...

    async with app.worker():
        jobs = [await app.tasks[name].enqueue() for name in ("brief", "long", "again")]
        assert await asyncio.gather(*(job.result(timeout=30) for job in jobs)) == [None] * 3
        await app.tasks["none"].enqueue()
        while "none" not in settled:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    kept = {name: it for name, it in settled.items() if isinstance(it, Done) and it.verdict}
    assert {name: it.ttl_ms for name, it in kept.items()} == {
        "brief": 30_000,
        "long": 60_000,
        "again": 60_000,
    }
    assert {decode_verdict(it.verdict).value for it in kept.values()} == {b"\xc0"}
    assert settled["none"] is DONE
