"""Dead events are forgotten after a time, but for those that keep their key from going on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from headrace import Headrace, JobFailed, Reject
from headrace.core.bounds import DEAD_KEPT_DAYS
from headrace.core.job.outcome import DONE
from headrace.store.contract import Store, StoreConsumer
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.jobs import pruning
from headrace.store.sqlite.store import SqliteStore
from headrace.store.topics import Group
from headrace.testing import ManualClock
from headrace.testing.conformance.ground import LEASE
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import BILLING, TopicGround, event, keys
from tests.store.redis_time import OnRedisTime, RedisClock, TimedRedisStore

DAY_MS = 86_400_000


class TestSweptDead(OnRedisTime, TopicGround):
    @pytest.fixture(params=["redis", "memory"])
    async def store(
        self, request: pytest.FixtureRequest, namespace: str, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Store]:
        """A store that forgets few at a time."""
        store: RedisStore | SqliteStore
        if request.param == "redis":
            url: str = request.getfixturevalue("redis_url")
            self.clock = clock = RedisClock([url], namespace)
            store = TimedRedisStore(url, namespace, clock)
        else:
            monkeypatch.setattr(pruning, "_SWEPT_TOGETHER", 2)
            self.clock = manual = ManualClock()
            store = SqliteStore("memory://", namespace="test", crash_limit=3, clock=manual)
        await store.open()
        yield store
        await store.close()

    async def grow_old(self, member: StoreConsumer) -> None:
        """Let all that is dead be old enough, and workers look after it for a while."""
        await self.pass_time(DEAD_KEPT_DAYS * DAY_MS / 1000)
        assert await self.look_regularly(member, LEASE * 2, queue=BILLING) == []

    async def test_what_blocks_a_key_stays_and_is_in_nobodys_way(self, store: Store) -> None:
        await self.join(store, group=Group(ordered=True, on_failure="block"))
        heads = [event(key=key) for key in "abc"]
        later = [event(key=key) for key in "abc"]
        others = [event() for _ in range(3)]
        await self.put(store, [*heads, *later, *others])
        member = self.member(store)
        assert set(await self.handle_all(store, member, DEAD)) == set(keys([*heads, *others]))
        await self.grow_old(member)
        dead = [job.job_id for job in (await store.dead(BILLING)).jobs]
        assert sorted(dead) == sorted(keys(heads))
        assert [key.waiting for key in await store.stopped_keys(BILLING)] == [1] * 3
        for key in "abc":
            assert await store.free_key(BILLING, key)
        assert await self.handle_all(store, member, DONE) == keys(later)
        await self.grow_old(member)
        assert (await store.dead(BILLING)).jobs == []

    async def test_a_failed_key_stays_failed_without_its_dead(self, store: Store) -> None:
        await self.join(store, group=Group(ordered=True, on_failure="fail_key"))
        await self.publish(store, 2, key="a")
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        await self.nothing_left(member)
        await self.grow_old(member)
        assert (await store.dead(BILLING)).jobs == []
        assert [key.state for key in await store.stopped_keys(BILLING)] == ["failed"]


async def test_a_time_that_began_before_1970_keeps_all(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, keep_dead=timedelta(days=36_500))

    @app.task
    async def fail() -> None:
        raise Reject("no")

    async with app, app.worker():
        with pytest.raises(JobFailed):
            await (await fail.enqueue()).result(timeout=30)
        assert [job.reason for job in (await app.store.dead("default")).jobs] == ["rejected"]
