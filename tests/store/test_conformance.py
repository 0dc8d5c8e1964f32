"""Every store keeps every promise of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.store.contract import Store
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock, StoreConformance


class TestRedis(StoreConformance):
    @pytest.fixture
    async def store(self, redis_url: str, namespace: str) -> AsyncIterator[Store]:
        store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
        await store.open()
        yield store
        await store.close()


class TestSqlite(StoreConformance):
    url = "sqlite:///{folder}/jobs.db"

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        self.clock = ManualClock()
        url = self.url.format(folder=tmp_path)
        store = SqliteStore(url, namespace="test", crash_limit=3, clock=self.clock)
        await store.open()
        yield store
        await store.close()

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)


class TestMemory(TestSqlite):
    url = "memory://"
