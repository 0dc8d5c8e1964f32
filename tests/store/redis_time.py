"""A Redis whose time stands still until a test moves it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache

import pytest
import redis

from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.store import RedisStore
from headrace.testing import ManualClock
from headrace.testing.conformance.ground import Ground
from tests.scripts import alter_scripts

# What scripts say for the time in ms. The clock stands with the keys of each queue, since a cluster
# has them apart.
_NOW = "time[1] * 1000 + math.floor(time[2] / 1000)"
_GET = "redis.call('GET', string.match(KEYS[1], '^{.-}') .. ':clock')"
_SHOWN = f"tonumber({_GET})"
# Entries of streams have the time in their ids.
_ID = "'*', "
_SHOWN_ID = f"{_GET} .. '-*', "

# What the server itself keeps the time of: the age of leases, and how long keys live.
_AGE = """#!lua flags=allow-cross-slot-keys
local passed = tonumber(ARGV[2])

local function age_leases(stream, group)
  for _, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', 1000000)) do
    local id, holder, idle, count = unpack(pending)
    -- The server forgets a lease that is claimed when its entry is gone.
    if #redis.call('XRANGE', stream, id, id) == 1 then
      redis.call('XCLAIM', stream, group, holder, 0, id,
        'IDLE', idle + passed, 'RETRYCOUNT', count, 'JUSTID')
    end
  end
end

for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', name)
  if left > 0 then
    redis.call('PEXPIRE', name, left - passed)
  end
  if redis.call('TYPE', name).ok == 'stream' then
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', name)) do
      age_leases(name, group[2])
    end
  end
end
"""


@cache
def server_at(url: str) -> redis.Redis:
    """A connection that all tests share: to open one takes longer than most of them."""
    return redis.Redis.from_url(url)


class RedisClock:
    """The time of one namespace, on the servers with these URLs."""

    def __init__(self, urls: Sequence[str], namespace: str) -> None:
        self._servers = [server_at(url) for url in urls]
        self._namespace = namespace
        self._tags: set[str] = set()
        self.now_ms = time.time_ns() // 1_000_000
        self._show(f"{{{namespace}}}")

    def advance(self, seconds: float) -> None:
        passed = round(seconds * 1000)
        self.now_ms += passed
        for server in self._servers:
            server.eval(_AGE, 0, f"{{{self._namespace}[:}}]*", passed)
        for tag in tuple(self._tags):
            self._show(tag)

    def learn(self, keys: QueueKeys) -> None:
        """Show the time to the scripts of a queue too."""
        tag = keys.ready[: keys.ready.index("}") + 1]
        if tag not in self._tags:
            self._show(tag)

    def _show(self, tag: str) -> None:
        self._tags.add(tag)
        for server in self._servers:
            # In a cluster only one of them has the key.
            with suppress(redis.ResponseError):
                server.set(f"{tag}:clock", self.now_ms, ex=30 * 86_400)


class TimedRedisStore(RedisStore):
    """A store whose time is that of `clock`, in tests that are `OnRedisTime`."""

    def __init__(self, url: str, namespace: str, clock: RedisClock) -> None:
        super().__init__(url, namespace=namespace, crash_limit=3)
        self._clock = clock

    def keys(self, queue: str) -> QueueKeys:
        keys = super().keys(queue)
        self._clock.learn(keys)
        return keys

    async def time_ms(self) -> int:
        return self._clock.now_ms


class OnRedisTime(Ground):
    """Tests on a Redis whose time they move: their store is a `TimedRedisStore` with `clock`."""

    clock: RedisClock | ManualClock

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _scripts_see_the_clock(cls) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            alter_scripts(patch, _NOW, _SHOWN)
            alter_scripts(patch, _ID, _SHOWN_ID)
            yield

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
