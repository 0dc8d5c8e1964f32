"""Programs that would rather end than wait for their store."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, StoreUnavailable
from tests.servers import RedisServer

SAID = r"away for longer than max_reconnect=0\.3 s: Redis cannot be reached"


async def test_worker_and_waiter_end_when_the_store_is_away_for_too_long(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        app = Headrace(server.url, max_reconnect=0.3)

        @app.task
        async def never() -> None: ...

        async with app:
            job = await never.options(delay=3600).enqueue()
            waits = asyncio.create_task(job.result(timeout=120))
            worker = app.worker()
            works = asyncio.create_task(worker.run())
            await asyncio.wait_for(worker._ready.wait(), 60)
            server.kill()
            for ends in (works, waits):
                with pytest.raises(StoreUnavailable, match=SAID):
                    await asyncio.wait_for(ends, 60)


def test_max_reconnect_is_a_time_and_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Headrace("memory://").max_reconnect is None
    assert Headrace("memory://", max_reconnect=timedelta(minutes=2)).max_reconnect == 120.0
    with pytest.raises(ConfigError, match="max_reconnect"):
        Headrace("memory://", max_reconnect=0)
    monkeypatch.setenv("HEADRACE_MAX_RECONNECT", "5m")
    assert Headrace("memory://").max_reconnect == 300.0
