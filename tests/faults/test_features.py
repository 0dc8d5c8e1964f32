"""Keys, limits, batches, flows and schedules, while workers are killed and clocks lie."""

from __future__ import annotations

from pathlib import Path

from tests.faults.crew import Crew
from tests.faults.grinding import Grinding, grind


async def test_killed_workers_break_no_promise_of_any_feature(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await grind(crew, Grinding())


async def test_clocks_ten_minutes_apart_change_nothing(
    redis_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, redis_url, namespace, crash_limit=50) as crew:
        await grind(crew, Grinding(kills=3, clocks=(0.0, 600.0, -600.0)))
