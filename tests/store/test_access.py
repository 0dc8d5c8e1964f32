"""Encrypted connections, users with few rights, other databases."""

from __future__ import annotations

import asyncio
import gc
import socket
import traceback
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headrace import Headrace, StoreRefused, StoreUnavailable
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
    path = tmp_path / "redis.sock"
    with RedisServer(tmp_path, {"unixsocket": str(path)}):
        assert await runs_a_job(f"unix://{path}") == 5


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


async def waits_in_vain(url: str, namespace: str = "headrace") -> StoreRefused:
    """What a worker ends with that would wait for ever for a store that is away."""
    app = Headrace(url, namespace=namespace)

    @app.task
    def nothing() -> None: ...

    with pytest.raises(StoreRefused) as refused:
        await asyncio.wait_for(app.worker().run(), 60)
    assert not refused.value.retryable
    assert refused.value.__cause__ is None
    return refused.value


async def test_a_certificate_that_is_not_trusted_ends_the_wait(encrypted: RedisServer) -> None:
    untrusted = encrypted.url.partition("?")[0]
    said = str(await waits_in_vain(untrusted))
    assert "the certificate of the Redis server is not trusted: self" in said
    assert "ssl_ca_certs=FILE" in said
    in_a_cluster = untrusted.replace("rediss:", "rediss+cluster:")
    assert "is not trusted" in str(await waits_in_vain(in_a_cluster))
    behind = untrusted.replace("rediss:", "rediss+sentinel:").replace("/0", "/shop/0")
    assert "is not trusted" in str(await waits_in_vain(behind))


async def test_a_port_without_tls_ends_the_wait(encrypted: RedisServer) -> None:
    plain = f"rediss://127.0.0.1:{encrypted.port}/0?socket_connect_timeout=0.2"
    in_a_cluster = plain.replace("rediss:", "rediss+cluster:")
    behind = plain.replace("rediss:", "rediss+sentinel:").replace("/0", "/shop/0")
    for url in (plain, in_a_cluster, behind):
        assert f"listens at 127.0.0.1:{encrypted.port} speaks no TLS: write redis://" in str(
            await waits_in_vain(url)
        )


async def test_a_port_that_speaks_tls_alone_ends_the_wait(encrypted: RedisServer) -> None:
    plain = encrypted.url.partition("?")[0].replace("rediss:", "redis:")
    in_a_cluster = plain.replace("redis:", "redis+cluster:")
    behind = plain.replace("redis:", "redis+sentinel:").replace("/0", "/shop/0")
    for url in (plain, in_a_cluster, behind):
        assert "speaks TLS alone: write rediss://" in str(await waits_in_vain(url))


async def test_a_server_of_something_else_that_speaks_no_tls_ends_the_wait() -> None:
    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "speaks no TLS" in str(await waits_in_vain(f"rediss://127.0.0.1:{port}/0"))


async def test_a_server_that_is_silent_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StoreUnavailable, match="Timeout") as away:
            await Headrace(f"rediss://127.0.0.1:{port}/0?socket_connect_timeout=0.1").session()
    assert away.value.retryable


async def test_valkey_has_its_own_names_for_the_same(encrypted: RedisServer) -> None:
    assert await runs_a_job(encrypted.url.replace("rediss:", "valkeys:")) == 5
    assert await runs_a_job(f"valkey://127.0.0.1:{encrypted.port}/0") == 5


async def test_where_nothing_listens_that_is_all_that_is_said() -> None:
    port = free_port()
    for scheme in ("redis", "valkey", "redis+cluster"):
        url = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(StoreUnavailable, match=f"nothing listens at 127.0.0.1:{port}") as away:
            await Headrace(url).session()
        assert f"(URL {url})" in str(away.value)
        shown = traceback.format_exception(away.value)
        assert "another exception" not in "".join(shown)
        assert "direct cause" not in "".join(shown)


async def test_a_namespace_that_the_user_may_not_use_is_named(redis_server: RedisServer) -> None:
    redis_server.ask(*user_of_servers("shop"))
    url = f"redis://shop:password@127.0.0.1:{redis_server.port}/0"
    said = str(await waits_in_vain(url, "shop:eu"))
    assert "(namespace 'shop:eu': its ACL must allow the keys and channels of that)" in said


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
