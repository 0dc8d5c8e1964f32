"""The scenarios of `tests/faults`, longer and harder: `make chaos`."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, StoreUnavailable
from tests.faults.crew import CALM, LONG, Crew
from tests.faults.flooding import Flood, flood
from tests.faults.grinding import Grinding, grind
from tests.faults.lasting import (
    outlive_a_full_disk,
    outlive_a_sleeping_server,
    work_on_in_flat_memory,
)
from tests.faults.poisoning import survive_poison
from tests.faults.scenarios import (
    MOMENTS,
    Massacre,
    Moment,
    Outages,
    die_at,
    outlive_a_frozen_worker,
    stop_a_deadly_job,
    survive_massacre,
    survive_outages,
)
from tests.servers import RedisServer


@pytest.mark.parametrize(
    "plan",
    [
        Massacre(jobs=8000, workers=3, every=0.3, concurrency=16, kills=40),
        Massacre(jobs=3000, workers=4, every=0.15, concurrency=2, kills=60),
    ],
    ids=["many held", "killed young"],
)
async def test_killed_workers_lose_no_job(
    lasting_url: str, namespace: str, tmp_path: Path, plan: Massacre
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await survive_massacre(crew, plan)


async def test_two_hundred_kills_lose_nothing_that_a_file_has_accepted(
    namespace: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Crew(tmp_path, url, namespace, crash_limit=50) as crew:
        await survive_massacre(crew, Massacre(jobs=1000, workers=4, every=0.3, kills=200))


async def test_a_server_that_sleeps_for_five_leases_makes_no_job_run_twice(
    durable_redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, durable_redis.url, namespace, lease=CALM) as crew:
        await outlive_a_sleeping_server(crew, durable_redis, leases=5)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system, which needs root; with more room than SQLite's log takes by itself."""
    disk = tmp_path / "disk"
    disk.mkdir()
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    mount = ["mount", "-t", "tmpfs", "-o", f"size=32m,uid={os.getuid()}", "tmpfs", str(disk)]
    subprocess.run([*root, *mount], check=True)
    yield disk
    subprocess.run([*root, "umount", "--lazy", str(disk)], check=True)


async def test_a_full_disk_loses_nothing_that_was_accepted(
    small_disk: Path, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, f"sqlite:///{small_disk}/jobs.db", namespace) as crew:
        await outlive_a_full_disk(crew, small_disk, rounds=5)


async def test_two_minutes_of_mixed_work_take_no_more_memory(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, lease=30.0) as crew:
        await work_on_in_flat_memory(crew, seconds=120, growth_mib=6)


async def test_killed_workers_break_no_promise_of_any_feature(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    plan = Grinding(keys=40, per_key=40, limited=250, flows=60, workers=4, kills=60, every=0.4)
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await grind(crew, plan)


async def test_killed_workers_lose_no_event_and_keep_each_key_in_order(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    plan = Flood(keys=1000, per_key=50, workers=4, kills=40, batch=500)
    async with Crew(tmp_path, lasting_url, namespace, crash_limit=50) as crew:
        await flood(crew, plan)


async def test_poison_is_dead_with_its_bytes_while_the_rest_flows(crew: Crew) -> None:
    await survive_poison(crew, others=5000)


async def test_a_late_outcome_changes_nothing(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, lasting_url, namespace, lease=CALM) as crew:
        await outlive_a_frozen_worker(crew, jobs=500)


async def test_jobs_that_kill_their_workers_are_stopped_and_take_no_other_along(
    crew: Crew,
) -> None:
    await stop_a_deadly_job(crew, deadly=4, others=120)


async def test_a_worker_may_die_at_any_moment(
    lasting_url: str, namespace: str, tmp_path: Path
) -> None:
    async def die(number: int, moment: Moment) -> None:
        folder = tmp_path / str(number)
        async with Crew(folder, lasting_url, f"{namespace}-{number}") as crew:
            await die_at(crew, moment)

    for begin in range(0, 8 * len(MOMENTS), len(MOMENTS)):
        await asyncio.gather(*(die(begin + n, moment) for n, moment in enumerate(MOMENTS)))


async def test_what_was_sent_outlives_every_outage(
    durable_redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, durable_redis.url, namespace, crash_limit=50) as crew:
        await survive_outages(crew, durable_redis, Outages(kills=25, up=0.7, senders=16))


async def test_what_was_sent_outlives_outages_and_killed_workers(
    durable_redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, durable_redis.url, namespace, crash_limit=50) as crew:
        plan = Outages(kills=15, up=1.0, senders=8, massacre=Massacre(every=0.5, kills=1000))
        await survive_outages(crew, durable_redis, plan)


async def test_a_server_that_never_answers_is_given_up_in_time(namespace: str) -> None:
    """One that takes the connection and is silent, as behind a broken balancer."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        app = Headrace(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", namespace=namespace)
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(LONG):
                await app.session()
