"""Workers that start before their store does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, StoreRefused
from headrace.worker.worker import Worker
from tests.faults.crew import LONG, Crew, eventually
from tests.servers import RedisServer, free_port

WAITS = "the worker waits for its store"


def shop(url: str, namespace: str) -> Headrace:
    app = Headrace(url, namespace=namespace, lease=1)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    return app


async def ended(worker: Worker, running: asyncio.Task[object]) -> None:
    worker.stop()
    async with asyncio.timeout(LONG):
        await running


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_worker_waits_for_a_store_that_is_away_when_it_starts(
    redis_server: RedisServer, namespace: str, tmp_path: Path, processes: str
) -> None:
    redis_server.kill()
    crew = Crew(tmp_path / "crew", redis_server.url, namespace)
    worker = crew.start("-p", processes)
    try:
        await worker.says(WAITS)
        redis_server.start()
        async with crew.app:
            await worker.works()
            job = await crew.app.tasks["work"].enqueue(0.0)
            await crew.ended([job.id])
        assert await worker.stopped() == 0
        assert worker.log.count(WAITS) <= 2
    finally:
        worker.clean_up()


async def test_a_worker_that_waits_ends_when_it_should(namespace: str, tmp_path: Path) -> None:
    crew = Crew(tmp_path, f"redis://127.0.0.1:{free_port()}/0", namespace)
    worker = crew.start()
    try:
        await worker.says(WAITS)
        assert await worker.stopped() == 0
    finally:
        worker.clean_up()


async def test_a_worker_waits_no_longer_than_it_may(namespace: str, tmp_path: Path) -> None:
    port = free_port()
    crew = Crew(tmp_path, f"redis://127.0.0.1:{port}/0", namespace)
    worker = crew.start("--wait-for-store", "0.3")
    try:
        assert await worker.ended() == 2
        assert f"127.0.0.1:{port}" in worker.log
    finally:
        worker.clean_up()


async def test_a_worker_waits_for_replicas(
    redis_server: RedisServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its store answers, and refuses to write."""
    app = shop(redis_server.url, namespace)
    seen: list[bytes] = []

    @app.topic("orders", bytes, codec="raw").subscribe("billing")
    async def bill(event: bytes) -> None:
        seen.append(event)

    redis_server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await eventually("it says so", lambda: f"{WAITS}: Redis: the server has too few" in caplog.text)
    redis_server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    async with app:
        job = await app.tasks["double"].enqueue(4)
        assert await job.result(LONG) == 8
        await app.topics["orders"].publish(b"one")
        await eventually("it was handled", lambda: seen == [b"one"])
        await ended(worker, running)


async def test_a_wrong_password_is_refused_at_once(
    redis_server: RedisServer, namespace: str
) -> None:
    redis_server.ask("CONFIG", "SET", "requirepass", "right")
    for credentials in ("", ":wrong@"):
        url = redis_server.url.replace("//", f"//{credentials}")
        with pytest.raises(StoreRefused, match="refuses the user or password"):
            async with asyncio.timeout(LONG):
                await shop(url, namespace).worker().run()


async def test_a_user_who_may_too_little_is_refused_at_once(
    redis_server: RedisServer, namespace: str
) -> None:
    redis_server.ask("ACL", "SETUSER", "guest", "on", ">pass", "~*", "&*", "+@all", "-evalsha")
    url = redis_server.url.replace("//", "//guest:pass@")
    with pytest.raises(StoreRefused, match="does not allow"):
        async with asyncio.timeout(LONG):
            await shop(url, namespace).worker().run()


async def test_a_wait_for_a_worker_can_be_given_up(namespace: str) -> None:
    app = shop(f"redis://127.0.0.1:{free_port()}/0", namespace)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), app.worker():
            pass
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


def test_a_wait_that_is_no_time_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="wait_for_store"):
        shop("memory://", namespace).worker(wait_for_store=-1)
