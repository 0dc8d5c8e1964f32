"""What the URL of a store may say behind its `?`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, StoreUnavailable
from headrace.core.address import sqlite_options, sqlite_path
from headrace.store.redis.connection.endpoint import RedisEndpoint
from headrace.store.redis.connection.url_options import ConnectionTuning, tuning_of, without_tuning
from tests.servers import RedisServer

ALL = "socket_timeout=3&socket_connect_timeout=0.5&keepalive_idle=60&keepalive_count=4"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h/0?retries=3", "has an option 'retries'; it can have client_name, db, "),
        ("redis://h/0?retries=3", "socket_connect_timeout, socket_keepalive, socket_timeout"),
        ("rediss://h/0?ssl_ca_cert=x", "has an option 'ssl_ca_cert'; it can have .*ssl_ca_certs"),
        ("redis+cluster://h?decode_responses=1", "has an option 'decode_responses'"),
        ("redis+sentinel://h/shop?username=x", "has an option 'username'"),
        ("unix:///run/redis.sock?socket_keepalive=no", "has an option 'socket_keepalive'"),
        ("redis://h/0?hunter2", "has an option without a value"),
        ("redis://h/0?max_connections=5", "Headrace has no pool: a process has about three"),
        ("redis://h/0?socket_timeout=0", "socket_timeout must be seconds, above 0, not '0'"),
        ("redis://h/0?socket_timeout=inf", "socket_timeout must be seconds"),
        ("redis://h/0?socket_connect_timeout=soon", "must be seconds, above 0, not 'soon'"),
        ("redis://h/0?socket_keepalive=60", "socket_keepalive must be yes or no, not '60'"),
        ("redis://h/0?keepalive_idle=0.5", "keepalive_idle must be whole seconds, 1 or more"),
        ("redis://h/0?socket_timeout=1&socket_timeout=2", "has 'socket_timeout' twice"),
        ("redis://h/0?socket_keepalive=no&keepalive_idle=5", "leave out one or the other"),
        ("sqlite:///jobs.db?timeout=5", "it can have secure_delete=yes or secure_delete=no"),
        ("sqlite:///jobs.db?secure_delete=maybe", "it can have secure_delete=yes or"),
        ("memory://?shared=1", "memory:// URLs take none; write memory://"),
    ],
)
def test_an_option_that_is_unknown_or_wrong_is_refused_when_declared(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Headrace(url)
    assert "hunter2" not in str(caught.value)


def test_options_are_no_part_of_the_name_of_a_file() -> None:
    url = "sqlite:////srv/jobs.db?secure_delete=yes"
    assert sqlite_path(url) == "/srv/jobs.db"
    assert sqlite_options(url).secure_delete
    assert not sqlite_options("sqlite:////srv/jobs.db").secure_delete
    assert Headrace(url).shown_url == url


def test_options_are_read_and_kept_from_the_driver() -> None:
    url = f"redis://h/0?client_name=shop&{ALL}"
    assert tuning_of(url) == ConnectionTuning(
        3.0, 0.5, keepalive_options={socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPCNT: 4}
    )
    assert without_tuning(url) == "redis://h/0?client_name=shop"
    assert without_tuning("redis://h/0?socket_timeout=3") == "redis://h/0"
    assert Headrace(url).shown_url == url


@pytest.mark.parametrize(
    "url",
    [
        *("redis://h/0", "redis+sentinel://h/shop", "redis+cluster://h", "unix:///run/r.sock"),
        *("valkey://h/0", "valkeys://h", "valkey+sentinel://h/shop", "valkeys+cluster://h"),
    ],
)
def test_every_kind_of_connection_has_them(url: str) -> None:
    wanted = "socket_timeout=3&socket_connect_timeout=0.5" if url.startswith("unix") else ALL
    endpoint = RedisEndpoint(f"{url}?{wanted}")
    connection = endpoint.connect()
    assert connection.socket_connect_timeout == 0.5
    assert connection.socket_timeout is None
    assert endpoint.link().timeout == endpoint.link_at("key").timeout == 3.0


async def test_a_socket_is_kept_alive_as_the_url_says(redis_server: RedisServer) -> None:
    for query, kept, idle in (("keepalive_idle=77", 1, 77), ("socket_keepalive=no", 0, None)):
        connection = RedisEndpoint(f"{redis_server.url}?{query}").connect()
        await connection.connect()  # type: ignore[no-untyped-call]
        assert connection._writer is not None
        raw = connection._writer.get_extra_info("socket")
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == kept
        if idle is not None:
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
        await connection.disconnect(nowait=True)


async def test_a_server_that_is_silent_is_given_as_long_as_the_url_says(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        async with Headrace(f"{server.url}?socket_timeout=0.3") as app:
            server.pause()
            try:
                with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.3 s"):
                    await app.store.time_ms()
            finally:
                server.resume()
