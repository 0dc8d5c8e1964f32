"""Every store keeps every promise of the contract."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headrace.store.contract import Store
from headrace.store.redis.connection.cluster import slot_of
from headrace.store.redis.keys import QueueKeys
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock, StoreConformance
from tests.store.redis_time import OnRedisTime, RedisClock, TimedRedisStore, server_at
from tests.store.spread import SPREAD


def test_no_promise_hides_another() -> None:
    """Of two tests with one name in the classes of the suite, only one would run."""
    named = Counter(
        name for part in StoreConformance.__mro__ for name in vars(part) if name.startswith("test_")
    )
    assert [name for name, times in named.items() if times > 1] == []


def test_promises_about_several_queues_exist() -> None:
    assert {name for name in SPREAD if not hasattr(StoreConformance, name)} == set()


class SlotRecorder(TimedRedisStore):
    """Knows in how many slots of a cluster its queues would be."""

    def __init__(self, url: str, namespace: str, clock: RedisClock) -> None:
        super().__init__(url, namespace, clock)
        self.slots: set[int] = set()

    def keys(self, queue: str) -> QueueKeys:
        keys = super().keys(queue)
        self.slots.add(slot_of(keys.ready))
        return keys


class TestRedis(OnRedisTime, StoreConformance):
    """With no more rights than the documents advise."""

    @pytest.fixture
    async def store(self, redis_url: str, users_url: str, namespace: str) -> AsyncIterator[Store]:
        self.url, self.namespace = redis_url, namespace
        self.clock = RedisClock([redis_url], namespace)
        store = SlotRecorder(users_url, namespace, self.clock)
        await store.open()
        yield store
        await store.close()

    @pytest.fixture(autouse=True)
    def _what_needs_a_cluster_is_listed(
        self, request: pytest.FixtureRequest, store: SlotRecorder
    ) -> Iterator[None]:
        """A promise about several queues is kept by other code on a cluster: it is tried there
        every time, not only by `make conformance`."""
        yield
        name = request.function.__name__
        assert len(store.slots) <= 1 or name in SPREAD, f"{name} goes into tests/store/spread.py"

    async def left_behind(self, store: Store) -> list[str]:
        """Keys that do not expire, but for those that a queue has once and for all."""
        server = server_at(self.url)
        keys = [key.decode() for key in server.scan_iter(f"{{{self.namespace}*", count=1000)]
        lasting = [key for key in keys if server.ttl(key) == -1]
        return [key for key in lasting if not self._belongs(server, key)]

    def _belongs(self, server: redis.Redis, key: str) -> bool:
        kind = key.split("}:", 1)[1].split(":")[0]
        if kind in ("ready", "dead"):
            # A stream stays when it is empty, and so does its group, but nobody is in it.
            groups = [group["name"] for group in server.xinfo_groups(key)]
            members = [one["name"] for name in groups for one in server.xinfo_consumers(key, name)]
            return server.xlen(key) == 0 and set(members) <= {b"returned"}
        return kind in ("queues", "levels", "epoch", "events", "facts", "ticks")


class TestValkey(TestRedis):
    @pytest.fixture
    async def store(self, valkey_url: str, namespace: str) -> AsyncIterator[Store]:
        self.url, self.namespace = valkey_url, namespace
        self.clock = RedisClock([valkey_url], namespace)
        store = SlotRecorder(valkey_url, namespace, self.clock)
        await store.open()
        yield store
        await store.close()


class TestSqlite(StoreConformance):
    url = "sqlite:///{folder}/jobs.db"
    # What a queue has once and for all, and what is kept of the past.
    lasting = frozenset(
        ["queues", "reclaims", "numbers", "ticks", "facts", "counters", "topics", "flow_parts"]
    )

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        self.clock = ManualClock(downtime=True)
        self.path = tmp_path / "jobs.db"
        url = self.url.format(folder=tmp_path)
        store = SqliteStore(url, namespace="test", crash_limit=3, clock=self.clock)
        await store.open()
        yield store
        await store.close()

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def left_behind(self, store: Store) -> list[str]:
        """Tables with rows."""
        with closing(sqlite3.connect(self.path)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = {name for (name,) in connection.execute(query)} - self.lasting
            return [
                name
                for name in sorted(tables)
                if connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            ]


class TestMemory(TestSqlite):
    url = "memory://"

    async def left_behind(self, store: Store) -> list[str]:
        """Nobody else can look into it; it is the same as in a file."""
        return []
