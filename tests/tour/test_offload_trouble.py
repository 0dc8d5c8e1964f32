"""Places for large payloads that fail, hang or are slow."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace import Headrace, Offload, OffloadError
from headrace.worker.consume import offload_cleaner


async def test_why_says_that_a_payload_could_not_be_had(app: Headrace) -> None:
    async def get(key: str) -> bytes:
        raise ConnectionError("the shelf is away")

    @app.task(offload=Offload(lambda key, data: None, get, threshold=10))
    async def count(text: str) -> int:
        return len(text)

    job = await count.enqueue("a" * 2_000)
    async with app.worker():
        missed = "its payload could not be had, "
        while missed not in await app.admin.why(job.id):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_payload_that_hangs_is_in_the_way_of_nothing(app: Headrace) -> None:
    """A thread that never ends keeps neither the loop from ending, nor others from its threads."""
    release = threading.Event()

    def put(key: str, data: bytes) -> None:
        release.wait()

    hangs = Offload(put, lambda key: b"", threshold=10, timeout=0.05)

    @app.task(offload=hangs)
    async def count(text: str) -> int:
        return len(text)

    try:
        sends = [count.enqueue("a" * 2_000) for _ in range(40)]
        for error in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(error, OffloadError)
            assert "no answer in 0.05 s" in str(error)
        await asyncio.wait_for(asyncio.to_thread(len, ""), 30)
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 30)
    finally:
        release.set()


async def test_a_worker_that_stops_does_not_wait_for_payloads_that_are_not_deleted(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload_cleaner, "_LAST", 0.05)
    kept: dict[str, bytes] = {}
    release = asyncio.Event()

    async def put(key: str, data: bytes) -> None:
        kept[key] = data

    async def get(key: str) -> bytes:
        return kept[key]

    async def delete(key: str) -> None:
        await release.wait()

    @app.task(offload=Offload(put, get, delete, threshold=10))
    async def count(text: str) -> int:
        return len(text)

    async with app.worker():
        job = await count.enqueue("a" * 2_000)
        assert await job.result(timeout=20) == 2_000
    assert "1 payloads may not be deleted" in caplog.text


async def test_payloads_that_are_not_deleted_are_logged_within_bounds(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    kept: dict[str, bytes] = {}
    ended = asyncio.Event()

    async def put(key: str, data: bytes) -> None:
        kept[key] = data

    async def get(key: str) -> bytes:
        return kept[key]

    async def delete(key: str) -> None:
        await ended.wait()
        raise ConnectionError("the shelf is away")

    @app.task(offload=Offload(put, get, delete, threshold=10))
    async def count(text: str) -> int:
        return len(text)

    jobs = await app.enqueue_many([count.call("a" * 100) for _ in range(300)])
    async with app.worker():
        for job in jobs:
            assert await job.result(timeout=30) == 100
        ended.set()
    lines = [line for line in caplog.messages if "not deleted" in line]
    assert len(lines) < 150
    assert "more payloads were not deleted in the last second" in caplog.text
    assert "ConnectionError: the shelf is away" in caplog.text
