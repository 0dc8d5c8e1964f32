"""A run whose lease is gone is told so."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Headrace
from headrace.core.job.delivery import LeasedDelivery
from headrace.store.contract import reclaim_every


async def nothing(*_: object) -> list[LeasedDelivery]:
    return []


async def test_a_run_that_lost_its_lease_is_cancelled(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    thief = app.store.consumer("thief", ["default"], app.lease)
    # The heartbeat sleeps until the job has been taken over, and not by this worker itself.
    monkeypatch.setattr("headrace.worker.consume.heartbeat.renew_every", lambda lease: 4 * lease)
    monkeypatch.setattr("headrace.worker.consume.reclaimer.Reclaimer._reclaimed", nothing)
    async with app.worker():
        await hold.enqueue()
        await begun.wait()
        while not await thief.reclaim("default", 1, last_chance=True):  # noqa: ASYNC110
            await asyncio.sleep(reclaim_every(app.lease))
        await asyncio.wait_for(cancelled.wait(), 60)
    assert "lease lost" in caplog.text
    await thief.close()
