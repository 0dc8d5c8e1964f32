"""Batches that gather, while workers and senders are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults.crew import Crew
from tests.faults.digests import MOMENTS, die_with_batches, gather_what_killed_senders_sent


async def test_a_worker_may_die_at_any_moment_of_a_batch(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async def die(number: int, kill: str) -> None:
        name = f"{namespace}-{number}"
        async with Crew(tmp_path / str(number), lasting_url, name, crash_limit=50) as crew:
            await die_with_batches(crew, kill)

    await asyncio.gather(*(die(number, kill) for number, kill in enumerate(MOMENTS)))


async def test_what_killed_senders_had_sent_gathers(crew: Crew) -> None:
    await gather_what_killed_senders_sent(crew, senders=3, size=50, keys=7)
