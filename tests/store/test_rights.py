"""The users of Redis that the documents advise can do what an app does, and nothing else.

The conformance suite runs with these rights, and so do all examples; what is here are the parts
that neither touches, and what such a user must not do. Rights that a new command needs belong into
`docs/stores.md`, from where these tests read them.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headrace import Headrace
from headrace.cli.check import of_store
from tests.rights import CLUSTER, user_of_sentinels, user_of_servers
from tests.servers import RedisCluster, RedisServer
from tests.store.features import use_everything
from tests.store.test_sentinel import Sentinel

ALLOWED_THOUGH_DANGEROUS = {"info", "client|unblock"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server with the advised user beside its own."""
    settings = {"appendonly": "yes"}
    with RedisServer(tmp_path_factory.mktemp("guarded"), settings) as server:
        server.ask("CONFIG", "SET", "masterauth", "S3CR3T")
        server.ask(*user_of_servers())
        yield server


@pytest.fixture
def url(guarded: RedisServer) -> str:
    return f"redis://shop:password@127.0.0.1:{guarded.port}/0?client_name=shop"


async def test_the_user_can_do_all_that_an_app_does(url: str) -> None:
    await use_everything(Headrace(url, lease=2))


async def test_the_user_may_use_another_database(url: str) -> None:
    async with Headrace(url.replace("/0?", "/3?")) as app:
        assert await app.admin.queues() == []


@pytest.mark.parametrize(
    "command",
    [
        "CONFIG GET requirepass",
        "CONFIG GET masterauth",
        "CONFIG SET appendonly no",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "CLIENT PAUSE 1",
        "CLIENT NO-EVICT on",
        "SCRIPT FLUSH",
        "SCRIPT KILL",
        "FUNCTION FLUSH",
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "DBSIZE",
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "RENAME {headrace}:a {headrace}:b",
        "SORT {headrace}:a",
        "DUMP {headrace}:a",
        "MIGRATE h 1 {headrace}:a 0 1",
        "MONITOR",
        "SAVE",
        "BGREWRITEAOF",
        "REPLICAOF NO ONE",
        "SHUTDOWN NOSAVE",
        "SLOWLOG GET",
        "ACL LIST",
        "ACL WHOAMI",
        "MODULE LIST",
        "PUBSUB CHANNELS",
        "PSUBSCRIBE *",
        "GET other",
        "GET {headrace2:q}:x",
        "SET {headrace2}:x 1",
        "XADD {other:q}:ready * a b",
        "DEL other",
        "PUBLISH {other:q}:finished x",
        "SUBSCRIBE {other:q}:finished",
        "EVAL return(redis.call('GET',KEYS[1])) 1 other",
        "EVAL return(redis.call('GET','other')) 0",
        "EVAL return(redis.call('KEYS','*')) 0",
    ],
)
def test_the_user_is_refused_what_is_none_of_its_business(url: str, command: str) -> None:
    with closing(redis.Redis.from_url(url)) as user, pytest.raises(redis.ResponseError) as refused:
        user.execute_command(*command.split(" "))  # type: ignore[no-untyped-call]
    said = str(refused.value)
    assert re.search(r"[Nn]o permission|ACL failure|The user executing the script can't", said)
    assert "S3CR3T" not in said


def test_the_user_can_hang_the_server_for_everybody(tmp_path: Path) -> None:
    """Why apps that do not trust each other have servers of their own, as docs/security.md says."""
    loops = "redis.call('SET', KEYS[1], 1) while true do end"
    hang = f'AUTH shop password\r\nEVAL "{loops}" 1 {{headrace}}:a\r\n'
    with RedisServer(tmp_path, {"busy-reply-threshold": "1"}) as server:
        server.ask(*user_of_servers())
        try:
            with socket.create_connection(("127.0.0.1", server.port)) as user:
                user.sendall(hang.encode())
                while not (said := server.call("PING")).startswith(b"-BUSY"):
                    assert said.startswith(b"+PONG")
                assert b"SHUTDOWN NOSAVE" in said
                assert server.call("SCRIPT", "KILL").startswith(b"-UNKILLABLE")
        finally:
            server.kill()


def test_the_user_has_no_dangerous_right_but_two(guarded: RedisServer) -> None:
    names = {
        name.decode()
        for category in ("dangerous", "admin")
        for name in guarded.ask("ACL", "CAT", category)
    }
    allowed = {name for name in names if not _is_refused(guarded, name)}
    assert allowed == ALLOWED_THOUGH_DANGEROUS


def _is_refused(server: RedisServer, name: str) -> bool:
    """Whether the server would not let the user run the command, whatever it is about."""
    arity = abs(server.ask("COMMAND", "INFO", name)[0][1])
    words = name.split("|")
    words += ["1"] * (arity - len(words))
    said = server.call("ACL", "DRYRUN", "shop", *words)
    return b"permissions to run" in said


async def test_settings_that_the_user_may_not_read_are_named(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace(url, require_durable=True)
    with caplog.at_level(logging.INFO, "headrace.store"):
        async with app:
            store = await app.admin.store()
    assert "appendfsync could not be read" in caplog.text
    (finding,) = [each for each in of_store(store) if "appendfsync" in each.text]
    assert finding.level == "ok"
    assert store.risks == ()


async def test_eviction_is_found_without_the_right_to_read_settings(
    guarded: RedisServer, url: str
) -> None:
    guarded.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        async with Headrace(url) as app:
            (risk,) = (await app.admin.store()).risks
    finally:
        guarded.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert "maxmemory-policy is allkeys-lru" in risk


async def test_the_user_can_do_all_that_an_app_does_in_a_cluster(
    cluster: RedisCluster, spread_namespace: str
) -> None:
    for node in cluster.nodes:
        node.ask(*user_of_servers("test-*", CLUSTER))
    url = cluster.url.replace("://", "://shop:password@")
    await use_everything(Headrace(url, namespace=spread_namespace, lease=2))


async def test_the_users_of_servers_and_sentinels_are_enough(tmp_path: Path) -> None:
    home = tmp_path / "master"
    home.mkdir()
    with RedisServer(home) as master:
        master.ask(*user_of_servers())
        with Sentinel(tmp_path / "sentinel", master.port) as sentinel:
            sentinel.ask(*user_of_sentinels())
            sentinel.ask("ACL", "SETUSER", "default", "resetpass", ">other")
            app = Headrace(
                f"redis+sentinel://shop:password@127.0.0.1:{sentinel.port}/shop/0"
                "?sentinel_username=shop&sentinel_password=password",
                lease=2,
            )
            await use_everything(app)
