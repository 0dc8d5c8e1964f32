"""Workers that are killed while events flow, and events that kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults.crew import Crew
from tests.faults.flooding import Flood, die_at, flood
from tests.faults.poisoning import survive_poison


async def test_killed_workers_lose_no_event_and_keep_each_key_in_order(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await flood(crew, Flood())


async def test_poison_is_dead_with_its_bytes_while_the_rest_flows(crew: Crew) -> None:
    await survive_poison(crew, others=200)


async def test_a_worker_may_die_at_any_moment_of_an_event(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async def die(number: int, moment: str) -> None:
        folder = tmp_path / str(number)
        async with Crew(folder, lasting_url, f"{namespace}-{number}") as crew:
            await die_at(crew, moment)

    verbs = ("fetch:before", "fetch:after", "settle:before", "settle:after", "promote:after")
    await asyncio.gather(*(die(number, moment) for number, moment in enumerate(verbs)))
