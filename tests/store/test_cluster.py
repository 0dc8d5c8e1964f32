"""Redis Cluster: each key is found where it is, and found again after it has moved."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import ConfigError, Headrace, StoreError, StoreUnavailable
from headrace.errors import StoreMismatch
from headrace.store.redis.connection import pubsub as pubsub_module
from headrace.store.redis.connection.cluster import slot_of
from headrace.store.redis.connection.endpoint import RedisEndpoint
from headrace.store.redis.connection.errors import NoGroup
from headrace.store.redis.connection.link import Link
from headrace.store.redis.connection.pubsub import PubSub, encode_keys
from tests.servers import RedisCluster, RedisServer, free_port
from tests.store.patience import eventually


@pytest.fixture
def server(cluster: RedisCluster) -> RedisEndpoint:
    return RedisEndpoint(cluster.url)


@pytest.fixture
async def link(server: RedisEndpoint) -> AsyncIterator[Link]:
    link = server.link()
    yield link
    await link.drop()


@pytest.fixture
def spread(cluster: RedisCluster) -> dict[str, RedisServer]:
    """A new key on each of the masters, and the master."""
    found: dict[RedisServer, str] = {}
    while len(found) < len(cluster.masters):
        key = f"{{{uuid.uuid4().hex[:8]}}}:key"
        found.setdefault(cluster.owner(key), key)
    return {key: node for node, key in found.items()}


@pytest.fixture
def key(spread: dict[str, RedisServer]) -> str:
    return next(iter(spread))


@pytest.fixture
def target(spread: dict[str, RedisServer]) -> RedisServer:
    """Another master than the one that has `key`."""
    return list(spread.values())[1]


def script(body: str) -> Any:
    """As a link takes it."""
    sha = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()
    return SimpleNamespace(body=body, sha=sha, changes=False)


async def blocked(node: RedisServer) -> None:
    """When a client of the node waits in a blocking call."""
    while b"blocked_clients:0" in node.ask("INFO", "clients"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_a_key_is_asked_for_where_it_lives(
    link: Link, spread: dict[str, RedisServer]
) -> None:
    for key, node in spread.items():
        await link.call("SET", key, key, key=key)
        assert node.ask("GET", key) == key.encode()


@pytest.mark.parametrize("key", ["plain", "{tag}:x", "a{tag}b", "{}x", "{un", "a}{b}", "grün"])
def test_slots_are_counted_as_the_servers_count_them(cluster: RedisCluster, key: str) -> None:
    assert slot_of(key) == cluster.slot(key)


async def test_a_script_goes_to_its_keys_and_is_sent_along_where_it_is_not_known(
    link: Link, spread: dict[str, RedisServer]
) -> None:
    store = script(f"-- {uuid.uuid4()}\nredis.call('SET', KEYS[1], ARGV[1]) return KEYS[1]")
    for value in ("first", "again"):
        for key, node in spread.items():
            assert await link.run(store, [key], [value]) == key.encode()
            assert node.ask("GET", key) == value.encode()


async def test_what_is_about_no_key_is_answered_by_the_same_node_each_time(
    cluster: RedisCluster, link: Link
) -> None:
    cluster.masters[0].ask("CONFIG", "RESETSTAT")
    await link.call("TIME")
    await link.call("TIME")
    assert b"cmdstat_time:calls=2" in cluster.masters[0].ask("INFO", "commandstats")


async def test_nodes_do_not_wait_for_each_other(link: Link, spread: dict[str, RedisServer]) -> None:
    (busy, node), (other, _), _ = spread.items()
    waiting = asyncio.create_task(link.call("BLPOP", busy, 0, key=busy, timeout=60))
    await blocked(node)
    assert await link.call("SET", other, 1, key=other) == b"OK"
    assert not waiting.done()
    node.ask("LPUSH", busy, "x")
    assert await waiting == [busy.encode(), b"x"]


async def test_a_slot_that_was_moved_is_found_at_once(
    cluster: RedisCluster, link: Link, key: str, target: RedisServer
) -> None:
    await link.call("INCR", key, key=key)
    cluster.move(key, target)
    assert await link.call("INCR", key, key=key) == 2
    assert target.ask("GET", key) == b"2"


async def test_every_link_learns_of_a_move_from_one(
    cluster: RedisCluster, server: RedisEndpoint, link: Link, key: str, target: RedisServer
) -> None:
    await link.call("SET", key, "x", key=key)
    cluster.move(key, target)
    await link.call("GET", key, key=key)
    other = server.link_at(key)
    assert await other.call("GET", key) == b"x"
    await other.drop()


@pytest.mark.parametrize("kind", ["routed", "bound"])
async def test_a_script_is_refused_as_a_whole_while_its_slot_is_moved(
    cluster: RedisCluster, server: RedisEndpoint, key: str, target: RedisServer, kind: str
) -> None:
    link = server.link() if kind == "routed" else server.link_at(key)
    # The second key is not named before, as that of a result or a lane.
    both = script("redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[1] .. ':more')")
    await link.run(both, [key], [])
    source = cluster.owner(key)
    source.ask("DEL", f"{key}:more")

    cluster.begin_move(key, target)
    with pytest.raises(StoreUnavailable, match="moving a slot") as refused:
        await link.run(both, [key], [])
    assert not refused.value.sent
    assert source.ask("GET", key) == b"1"

    cluster.move_keys(key, target)
    with pytest.raises(StoreUnavailable, match="moving a slot"):
        await link.run(both, [key], [])

    cluster.end_move(key, target)
    assert await eventually(lambda: link.run(both, [key], [])) == 1
    assert target.ask("GET", key) == b"2"
    await link.drop()


async def test_a_read_that_waits_at_a_slot_which_moves_finds_it(
    cluster: RedisCluster, server: RedisEndpoint, key: str, target: RedisServer
) -> None:
    source = cluster.owner(key)
    source.ask("XGROUP", "CREATE", key, "workers", "0", "MKSTREAM")
    reading = server.link_at(key)
    command = ("XREADGROUP", "GROUP", "workers", "me", "BLOCK", 30_000, "STREAMS", key, ">")
    waiting = asyncio.create_task(reading.call(*command, timeout=60))
    await blocked(source)
    cluster.move(key, target)
    with pytest.raises(StoreUnavailable):
        await waiting
    target.ask("XADD", key, "*", "j", "job")
    [[stream, [[_, fields]]]] = await eventually(lambda: reading.call(*command, timeout=60))
    assert (stream, fields) == (key.encode(), [b"j", b"job"])
    await reading.drop()


async def test_a_group_that_is_gone_is_told_from_one_that_has_moved(
    cluster: RedisCluster, server: RedisEndpoint, key: str
) -> None:
    reading = server.link_at(key)
    with pytest.raises(NoGroup):
        await reading.call("XREADGROUP", "GROUP", "workers", "me", "STREAMS", key, ">")
    await reading.drop()


async def test_a_call_that_waits_can_be_ended_from_another_link(
    cluster: RedisCluster, server: RedisEndpoint, key: str
) -> None:
    reading, ending = server.link_at(key), server.link_at(key)
    await reading.identify()
    assert reading.client_id is not None
    waiting = asyncio.create_task(reading.call("BLPOP", key, 0, timeout=60))
    await blocked(cluster.owner(key))
    assert await ending.call("CLIENT", "UNBLOCK", reading.client_id) == 1
    assert await waiting is None
    await reading.drop()
    await ending.drop()


async def test_what_was_sent_and_not_answered_is_not_sent_again(
    cluster: RedisCluster, link: Link, key: str
) -> None:
    await link.call("SET", key, 0, key=key)
    node = cluster.owner(key)
    node.pause()
    try:
        with pytest.raises(StoreUnavailable) as lost:
            await link.call("INCR", key, key=key, timeout=0.1)
    finally:
        node.resume()
    assert lost.value.sent
    assert await eventually(lambda: link.call("GET", key, key=key)) == b"1"


async def test_a_node_that_is_not_there_is_passed_over(cluster: RedisCluster, key: str) -> None:
    alive = cluster.masters[0].port
    server = RedisEndpoint(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{alive}")
    link = server.link()
    await server.check(link, require_durable=False)
    assert await link.call("SET", key, 1, key=key) == b"OK"
    await link.drop()


async def test_nodes_that_cannot_be_reached_are_named_without_the_password() -> None:
    ports = (free_port(), free_port())
    server = RedisEndpoint(f"redis+cluster://me:secret@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")
    with pytest.raises(StoreUnavailable) as caught:
        await server.check(server.link(), require_durable=False)
    assert not caught.value.sent
    for port in ports:
        assert f"127.0.0.1:{port}" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_server_of_its_own_is_not_taken_for_a_cluster(redis_server: RedisServer) -> None:
    server = RedisEndpoint(f"redis+cluster://127.0.0.1:{redis_server.port}")
    with pytest.raises(StoreMismatch, match=rf"write redis://127.0.0.1:{redis_server.port}/0"):
        await server.check(server.link(), require_durable=False)


async def test_a_node_is_not_taken_for_a_server_of_its_own(cluster: RedisCluster) -> None:
    server = RedisEndpoint(cluster.masters[0].url)
    link = server.link()
    with pytest.raises(ConfigError, match=r"part of a cluster: write redis\+cluster://"):
        await server.check(link, require_durable=False)
    await link.drop()


async def test_every_master_is_asked_whether_it_may_lose_jobs(
    cluster: RedisCluster, server: RedisEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match="require_durable") as caught:
        await server.check(server.link(), require_durable=True)
    with caplog.at_level(logging.INFO, "headrace.store"):
        await server.check(server.link(), require_durable=False)
    for master in cluster.masters:
        risk = f"node 127.0.0.1:{master.port}: appendonly is off"
        assert risk in str(caught.value)
        assert risk in caplog.text


async def test_the_user_in_the_url_is_that_of_every_node(
    cluster: RedisCluster, spread: dict[str, RedisServer]
) -> None:
    for master in cluster.masters:
        rights = ("+set", "+cluster|slots", "+info", "+config|get")
        master.ask("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "-@all", *rights)
    url = cluster.url.replace("://", "://shop:secret@")
    server = RedisEndpoint(url)
    link = server.link()
    await server.check(link, require_durable=False)
    for key in spread:
        assert await link.call("SET", key, 1, key=key) == b"OK"
    await link.drop()

    stranger = RedisEndpoint(url.replace("secret", "guessed"))
    with pytest.raises(StoreUnavailable, match="user or password") as caught:
        await stranger.check(stranger.link(), require_durable=False)
    assert "guessed" not in str(caught.value)


async def test_nodes_are_talked_to_over_encrypted_connections(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    key, crt = (str(path) for path in certificate)
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cluster": "yes",
        "tls-cert-file": crt,
        "tls-key-file": key,
        "tls-ca-cert-file": crt,
        "tls-auth-clients": "no",
    }
    with RedisCluster(tmp_path, masters=1, settings=settings):
        server = RedisEndpoint(f"rediss+cluster://localhost:{port}?ssl_ca_certs={crt}")
        link = server.link()
        await server.check(link, require_durable=False)
        assert await link.call("SET", "key", 1, key="key") == b"OK"
        await link.drop()
        stranger = RedisEndpoint(f"rediss+cluster://localhost:{port}")
        with pytest.raises(StoreUnavailable):
            await stranger.check(stranger.link(), require_durable=False)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster://h1,,h2", "a host is missing"),
        ("redis+cluster://h1:seven", "host and port"),
        ("rediss+cluster://h1:99999", "ports go from 1 to 65535"),
        ("redis+cluster://h1/1", "only database 0"),
        ("redis+cluster://h1?db=2", "only database 0"),
        ("redis+cluster://h1/shop", "names no database"),
        ("redis+cluster://h1?timeout=3", "has an option 'timeout'"),
        ("redis+cluster://h1?ssl_ca_certs=ca.pem", "cannot be used"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        _ = Headrace(url.replace("://", "://me:secret@")).store
    assert "secret" not in str(caught.value)


def test_only_a_cluster_has_reads_that_cannot_span(server: RedisEndpoint) -> None:
    assert not server.reads_span
    assert RedisEndpoint("redis://localhost").reads_span


class Heard:
    """A listener, with what it was notified of."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()

    def __call__(self, keys: Any) -> None:
        self.keys.update(keys or ())

    async def of(self, node: RedisServer, channel: str) -> None:
        """When it has heard what is said at a node, again and again until then."""
        said = encode_keys([uuid.uuid4().bytes])
        connection = RedisEndpoint(f"redis://127.0.0.1:{node.port}").link()
        async with asyncio.timeout(60):
            while not any(key in said for key in self.keys):
                await connection.call("PUBLISH", channel, said)
                await asyncio.sleep(0.02)
        await connection.drop()


def subscribed(cluster: RedisCluster) -> RedisServer:
    """The node at which someone listens."""
    return next(node for node in cluster.nodes if b" sub=1" in node.ask("CLIENT", "LIST"))


async def test_what_is_said_at_any_node_is_heard(
    cluster: RedisCluster, server: RedisEndpoint
) -> None:
    pubsub, heard = PubSub(server.connect), Heard()
    await pubsub.add("{shop:mail}:due", heard)
    for node in cluster.masters:
        await heard.of(node, "{shop:mail}:due")
    await pubsub.close()


async def test_an_ear_moves_on_from_a_node_that_has_fallen_silent(
    cluster: RedisCluster, server: RedisEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub_module, "_PING_EVERY", 0.1)
    pubsub, heard = PubSub(server.connect), Heard()
    await pubsub.add("{shop:mail}:due", heard)
    await heard.of(cluster.masters[0], "{shop:mail}:due")
    silent = subscribed(cluster)
    silent.pause()
    try:
        other = next(node for node in cluster.masters if node is not silent)
        await heard.of(other, "{shop:mail}:due")
    finally:
        silent.resume()
        await pubsub.close()
    await eventually(lambda: asyncio.to_thread(cluster.is_well))


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path, replicas=1) as cluster:
        yield cluster


def _is_copied(master: RedisServer) -> bool:
    """Whether a replica has said that it has all that the master has."""
    info = master.ask("INFO", "replication").decode()
    told = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    replica = dict(part.split("=") for part in told.get("slave0", "offset=-1").split(","))
    return replica["offset"] == told["master_repl_offset"] and int(replica["offset"]) > 0


async def test_a_replica_that_took_over_is_found(replicated: RedisCluster) -> None:
    server = RedisEndpoint(replicated.url)
    link, reading = server.link(), server.link_at("a")
    for key in ("a", "b", "c"):
        await link.call("SET", key, key, key=key)
    await reading.call("GET", "a")
    master = replicated.owner("a")
    await eventually(lambda: asyncio.to_thread(_is_copied, master))
    master.kill()
    with pytest.raises(StoreError):
        await link.call("GET", "a", key="a")
    for key in ("a", "b", "c"):
        assert await eventually(lambda: link.call("GET", key, key=key)) == key.encode()  # noqa: B023
    assert await eventually(lambda: reading.call("GET", "a")) == b"a"
    assert replicated.owner("a") in replicated.replicas
    await link.drop()
    await reading.drop()
