"""Redis behind sentinels: the master is found, and found again after it died."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from headrace import ConfigError, Headrace, StoreError, StoreUnavailable
from headrace.errors import SendError
from headrace.store.redis.connection.sentinel import parse
from tests.servers import RedisServer, free_port


class Sentinel(RedisServer):
    """A sentinel that watches one master and gives it up quickly."""

    def __init__(self, folder: Path, master_port: int, *settings: str) -> None:
        super().__init__(folder)
        folder.mkdir(exist_ok=True)
        self.config = folder / "sentinel.conf"
        lines = (
            *(f"port {self.port}", "bind 127.0.0.1", f"dir {folder}"),
            f"sentinel monitor shop 127.0.0.1 {master_port} 1",
            "sentinel down-after-milliseconds shop 500",
            "sentinel failover-timeout shop 3000",
            *settings,
        )
        self.config.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [*super().command()[:1], str(self.config), "--sentinel"]


class Group:
    """A master, its replica, and the sentinel that watches them."""

    def __init__(self, folder: Path) -> None:
        for name in ("master", "replica"):
            (folder / name).mkdir()
        self.master = RedisServer(folder / "master")
        replicates = {"replicaof": f"127.0.0.1 {self.master.port}"}
        self.replica = RedisServer(folder / "replica", replicates)
        self.sentinel = Sentinel(folder / "sentinel", self.master.port)
        self.url = f"redis+sentinel://127.0.0.1:{self.sentinel.port}/shop/0"

    def start(self) -> None:
        for server in (self.master, self.replica, self.sentinel):
            server.start()

    def stop(self) -> None:
        for server in (self.sentinel, self.replica, self.master):
            server.stop()

    async def ready(self) -> None:
        """When the sentinel knows the replica and the replica has the data."""
        while b"num-slaves\r\n$1\r\n1" not in self.sentinel.call("SENTINEL", "MASTER", "shop"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        while b"master_link_status:up" not in self.replica.call("INFO", "replication"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    group = Group(tmp_path)
    group.start()
    yield group
    group.stop()


async def test_work_goes_on_after_the_master_died(group: Group) -> None:
    await group.ready()
    app = Headrace(group.url, lease=2)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker():
        assert await (await double.enqueue(4)).result(30) == 8
        group.master.kill()
        async with asyncio.timeout(60):
            while True:
                try:
                    job = await double.enqueue(5)
                    break
                except (StoreError, SendError):
                    await asyncio.sleep(0.2)
            assert await job.result(60) == 10
    assert b"role:master" in group.replica.call("INFO", "replication")


async def test_sentinels_that_cannot_be_reached_are_named() -> None:
    app = Headrace(f"redis+sentinel://127.0.0.1:{free_port()}/shop/0")
    with pytest.raises(StoreUnavailable, match="no sentinel reports where master 'shop' is"):
        await app.session()
    await app.store.close()


@dataclass
class Guarded:
    """A master and a sentinel, each with a password of its own, that are found over TLS alone."""

    master: RedisServer
    sentinel: Sentinel
    master_port: int
    sentinel_port: int
    certificate: Path

    def url(self, scheme: str = "rediss+sentinel", **options: str) -> str:
        given = {"sentinel_password": "of sentinels", "ssl_ca_certs": str(self.certificate)}
        query = urlencode({name: it for name, it in {**given, **options}.items() if it})
        return f"{scheme}://:of%23servers@127.0.0.1:{self.sentinel_port}/shop/0?{query}"


@pytest.fixture
def guarded(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[Guarded]:
    key, crt = certificate
    tls = {
        "tls-cert-file": str(crt),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(crt),
        "tls-auth-clients": "no",
        "tls-replication": "yes",
    }
    master_port, sentinel_port = free_port(), free_port()
    home = tmp_path / "master"
    home.mkdir()
    settings = {**tls, "tls-port": str(master_port), "requirepass": "of#servers"}
    sentinel = Sentinel(
        tmp_path / "sentinel",
        master_port,
        'sentinel auth-pass shop "of#servers"',
        'requirepass "of sentinels"',
        f"tls-port {sentinel_port}",
        *(f"{name} {value}" for name, value in tls.items()),
    )
    with RedisServer(home, settings) as master, sentinel:
        yield Guarded(master, sentinel, master_port, sentinel_port, crt)


async def test_sentinels_may_want_tls_and_a_password_of_their_own(guarded: Guarded) -> None:
    app = Headrace(guarded.url())

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker():
        assert await (await double.enqueue(4)).result(30) == 8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sentinel_password": "guessed"}, "another sentinel_username or sentinel_password"),
        ({"sentinel_password": ""}, "another sentinel_username or sentinel_password"),
        ({"ssl_ca_certs": ""}, "certificate of the Redis server is not trusted"),
        ({"sentinel_tls": "no"}, "speaks TLS alone: .* or sentinel_tls=yes"),
    ],
)
async def test_sentinels_that_let_nobody_in_say_why(
    guarded: Guarded, options: dict[str, str], said: str
) -> None:
    app = Headrace(guarded.url(**options))
    with pytest.raises(StoreUnavailable, match=said) as refused:
        await app.session()
    await app.store.close()
    # What does not pass by itself is not waited for.
    assert not refused.value.retryable
    for secret in ("of sentinels", "of+sentinels", "of#servers", "of%23servers", "guessed"):
        assert secret not in str(refused.value)


async def test_the_sentinels_alone_may_want_tls(guarded: Guarded) -> None:
    app = Headrace(guarded.url("redis+sentinel", sentinel_tls="yes"))
    # The sentinels were asked; the master is then talked to without TLS, which it does not want.
    with pytest.raises(StoreUnavailable) as refused:
        await app.session()
    await app.store.close()
    assert "no sentinel" not in str(refused.value)


def test_a_url_names_sentinels_master_and_database() -> None:
    watch = parse("redis+sentinel://me:secret@h1,h2:7000,[::1]:7001/shop/3")
    assert watch.sentinels == (("h1", 26379), ("h2", 7000), ("::1", 7001))
    assert watch.master == "shop"
    assert watch.server_url == "redis://me:secret@node/3?"
    assert watch.sentinel_url == "redis://node/0?"
    assert "secret" not in repr(watch)


def test_a_url_says_how_to_talk_to_servers_and_to_sentinels() -> None:
    query = "ssl_ca_certs=/ca&client_name=x&sentinel_username=s%3A&sentinel_password=p%40"
    both = parse(f"rediss+sentinel://h1/shop?{query}")
    assert both.server_url == "rediss://node/0?client_name=x&ssl_ca_certs=%2Fca"
    assert both.sentinel_url == "rediss://s%3A:p%40@node/0?ssl_ca_certs=%2Fca"
    servers = parse("rediss+sentinel://h1/shop?sentinel_tls=no&ssl_ca_certs=/ca")
    assert servers.server_url == "rediss://node/0?ssl_ca_certs=%2Fca"
    assert servers.sentinel_url == "redis://node/0?"


@pytest.mark.parametrize(
    "rest", ["", "h1", "h1/", "/shop", "h1:x/shop", "h1/shop/x", "h1:99999/shop"]
)
def test_a_url_that_lacks_something_is_refused(rest: str) -> None:
    with pytest.raises(ConfigError, match="redis\\+sentinel://host1,host2/master/0"):
        parse(f"redis+sentinel://{rest}")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("a=1", "option 'a'"),
        ("db=1", "option 'db'"),
        ("sentinel_tls=maybe", "yes or no"),
        ("sentinel_username=me", "no sentinel_password"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(query: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _ = Headrace(f"redis+sentinel://h1/shop?{query}").store


def test_tls_options_without_tls_are_refused() -> None:
    with pytest.raises(ConfigError, match="rediss"):
        _ = Headrace("redis+sentinel://h1/shop?ssl_ca_certs=/ca").store
