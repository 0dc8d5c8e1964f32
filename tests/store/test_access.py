"""Encrypted connections, users with few rights, other databases."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headrace import Headrace, StoreUnavailable
from headrace.core.version import VERSION
from tests.rights import user_of_servers
from tests.servers import RedisServer, free_port


async def runs_a_job(url: str) -> int:
    app = Headrace(url)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, app.worker():
        return await (await add.enqueue(2, 3)).result(60)


async def test_jobs_run_over_a_socket(tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    with RedisServer(tmp_path, {"unixsocket": str(socket)}):
        assert await runs_a_job(f"unix://{socket}") == 5


@pytest.fixture
def encrypted(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[RedisServer]:
    """A server whose `url` is one for encrypted connections."""
    key, crt = certificate
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(crt),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(crt),
        "tls-auth-clients": "no",
    }
    with RedisServer(tmp_path, settings) as server:
        server.url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={crt}"
        yield server


async def test_jobs_run_over_an_encrypted_connection(encrypted: RedisServer) -> None:
    assert await runs_a_job(encrypted.url) == 5
    with pytest.raises(StoreUnavailable):
        await Headrace(encrypted.url.partition("?")[0]).session()


def test_encrypted_connections_are_closed_though_the_server_says_nothing(
    encrypted: RedisServer,
) -> None:
    async def look_and_leave() -> None:
        async with Headrace(encrypted.url) as app:
            assert await app.store.queues() == []
            encrypted.pause()

    asyncio.run(look_and_leave())
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        gc.collect()
    assert unclosed == []


async def test_a_user_with_a_wrong_password_is_refused(redis_server: RedisServer) -> None:
    redis_server.ask(*user_of_servers())
    url = f"redis://shop:password@127.0.0.1:{redis_server.port}/0"
    assert await runs_a_job(url) == 5
    with pytest.raises(StoreUnavailable, match="user or password"):
        await Headrace(url.replace("password", "wrong")).session()


async def test_databases_are_told_apart(redis_server: RedisServer) -> None:
    one, two = (Headrace(f"redis://127.0.0.1:{redis_server.port}/{db}") for db in (1, 2))

    def nothing() -> None: ...

    task = one.task(nothing)
    async with one, two:
        await task.enqueue()
        assert await one.store.queues() == ["default"]
        assert await two.store.queues() == []


async def test_the_server_is_told_who_connects(valkey_url: str) -> None:
    app = Headrace(valkey_url)
    async with app:
        await app.admin.queues()
        with closing(redis.Redis.from_url(valkey_url)) as server:
            names = {client["lib-name"] for client in server.client_list()}
    assert f"redis-py(headrace_v{VERSION})" in names
