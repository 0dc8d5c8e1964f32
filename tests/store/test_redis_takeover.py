"""What a look for abandoned jobs finds on Redis, whatever else is pending."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, RELEASED
from headrace.store.contract import Store
from headrace.testing.conformance.gates.batch_ground import ids, some
from headrace.testing.conformance.ground import QUEUE, ids_of, known, parcel
from tests.scripts import alter_scripts
from tests.store.redis_time import OnRedisTime, RedisClock, TimedRedisStore

_FILL = """
for i = 1, ARGV[2] do
  redis.call('XADD', KEYS[1], '1-*', 'j', '')
end
redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', ARGV[2], 'STREAMS', KEYS[1], '>')
return redis.status_reply('OK')
"""


class TestTakeover(OnRedisTime):
    @pytest.fixture
    def server(self, redis_url: str, namespace: str) -> Iterator[redis.Redis]:
        self.ready = f"{{{namespace}:{QUEUE}}}:ready"
        with redis.Redis.from_url(redis_url) as server:
            yield server
            server.delete(self.ready)

    @pytest.fixture
    async def store(
        self, server: redis.Redis, redis_url: str, namespace: str
    ) -> AsyncIterator[Store]:
        self.clock = RedisClock([redis_url], namespace)
        store = TimedRedisStore(redis_url, namespace, self.clock)
        await store.open()
        yield store
        await store.close()

    async def test_one_look_takes_several_steps_if_much_is_pending(
        self, store: Store, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alter_scripts(monkeypatch, "local MOST_PASSED = 10000", "local MOST_PASSED = 100")
        alter_scripts(monkeypatch, "local MOST_AT_ONCE = 50000", "local MOST_AT_ONCE = 500")
        worker = self.worker(store, "other")
        assert await worker.fetch(1, 0) == []
        for name in "abc":
            server.eval(_FILL, 1, self.ready, f"{name}~600000", "250")
        await self.send(store, 3)
        await self.take(self.worker(store, "dies"), 3)
        assert await self.looks_until(worker, 3) <= 9

    async def test_released_jobs_are_found_behind_those_on_their_last_chance(
        self, store: Store, server: redis.Redis
    ) -> None:
        sent = await self.send(store, 7)
        worker, other = self.worker(store), self.worker(store)
        for at, held in enumerate(await self.take(worker, 7)):
            assert isinstance(held.receipt, bytes)
            count = 2 if at < 5 else 0
            server.xclaim(
                self.ready, "workers", "returned", 0, [held.receipt], retrycount=count, justid=True
            )
        found = known(await other.reclaim(QUEUE, 2, last_chance=False))
        assert sorted(ids_of(found)) == sorted(sent[5:])
        (last,) = known(await other.reclaim(QUEUE, 2, last_chance=True))
        assert (last.job_id, last.count) == (sent[0], 3)

    async def test_a_released_job_on_its_last_chance_is_not_fetched_with_others(
        self, store: Store
    ) -> None:
        await store.append(QUEUE, [parcel(runner="thread"), parcel(runner="thread")])
        giving, taking = self.worker(store), self.worker(store)
        (held,) = await self.take(giving)
        for _ in range(2):
            (held,) = await self.reclaim(giving, 1)
        await self.settle(giving, [held], RELEASED)
        (fresh,) = known(await taking.fetch(9, 0))
        assert fresh.job_id != held.job_id
        assert await taking.reclaim(QUEUE, 9, last_chance=False) == []
        (last,) = await self.reclaim(taking, 1)
        assert (last.job_id, last.count) == (held.job_id, held.count)

    @pytest.mark.parametrize("runner", RUNNERS)
    async def test_a_worker_that_has_read_before_is_notified_of_what_is_handed_back(
        self, store: Store, runner: Runner
    ) -> None:
        giving, taking = self.worker(store), self.worker(store)
        sent = [parcel(runner=runner) for _ in range(6)]
        await store.append(QUEUE, sent)
        await self.settle(taking, await self.take(taking), DONE)
        held = await self.take(giving, 2)
        async with self.heeded(taking):
            await self.settle(giving, held, RELEASED)
        found = known(await taking.fetch(3, 0, Capacity(3, 3, 3)))
        assert ids_of(found) == [item.job_id for item in sent[1:4]]

    async def test_a_batch_is_taken_over_when_the_last_of_its_leases_is_over(
        self, store: Store, server: redis.Redis
    ) -> None:
        """The server notes times a little apart for what one command delivers."""
        await store.append(QUEUE, sent := some(3))
        gone, heir = (self.worker(store, name, lease=600) for name in ("gone", "heir"))
        held = known(await gone.fetch(1, 0))
        assert ids_of(held) == ids(sent)
        stream, reclaims = f"{self.ready}:b", self.ready.replace(":ready", ":reclaims")

        async def taken(*silent: int) -> list[LeasedDelivery]:
            """What a look finds if the leases were renewed so many seconds ago."""
            for delivery, seconds in zip(held, silent, strict=True):
                assert isinstance(delivery.receipt, bytes)
                entry = delivery.receipt.partition(b"/")[2]
                server.xclaim(
                    stream, "workers", "gone~600000", 0, [entry], idle=1000 * seconds, justid=True
                )
            # As if looks had been regular, and the next were due.
            server.hset(reclaims, mapping={"at": (server.time()[0] - 150) * 1000, "hold": 0})
            return known(await heir.reclaim(QUEUE, 3, last_chance=True))

        assert await taken(610, 590, 610) == []
        assert await taken(590, 610, 610) == []
        assert ids_of(await taken(610, 610, 610)) == ids(sent)

    async def test_a_look_does_not_hide_a_batch_of_which_the_worker_was_notified(
        self, store: Store
    ) -> None:
        worker = self.worker(store)
        await store.append(QUEUE, some(3))
        await self.settle(worker, known(await worker.fetch(1, 0)), DONE)
        assert await worker.fetch(1, 0) == []
        async with self.heeded(worker):
            await store.append(QUEUE, sent := some(3))
        assert await worker.reclaim(QUEUE, 1, last_chance=True) == []
        assert ids_of(known(await worker.fetch(1, 0))) == ids(sent)
