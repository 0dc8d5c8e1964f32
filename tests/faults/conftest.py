"""Stores that outlive whoever works on them: a file, a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.faults.crew import Crew
from tests.faults.proxy import Proxy
from tests.servers import RedisServer


@pytest.fixture(params=["sqlite", "redis"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Both kinds of store that several processes can share."""
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def crew(lasting_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Crew]:
    async with Crew(tmp_path, lasting_url, namespace) as crew:
        yield crew


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """Looks at the server past all wires."""
    with closing(redis.Redis.from_url(redis_url)) as client:
        yield client


@pytest.fixture
async def wire(redis_client: redis.Redis) -> AsyncIterator[Proxy]:
    """To the same server as `redis_url`."""
    async with Proxy(redis_client.connection_pool.connection_kwargs["port"]) as proxy:
        yield proxy


@pytest.fixture
def durable_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of one's own that has on disk what it has acknowledged."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with RedisServer(folder, {"appendonly": "yes", "appendfsync": "always"}) as server:
        yield server
