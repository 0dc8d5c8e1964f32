"""Redis behind sentinels: the master is found, and found again after it died."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, StoreError, StoreUnavailable
from headrace.errors import SendError
from headrace.store.redis.sentinel import Watch, parse
from tests.servers import RedisServer, free_port


class Sentinel(RedisServer):
    """A sentinel that watches one master and gives it up quickly."""

    def __init__(self, folder: Path, master: RedisServer) -> None:
        super().__init__(folder)
        folder.mkdir(exist_ok=True)
        self.config = folder / "sentinel.conf"
        self.config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor shop 127.0.0.1 {master.port} 1\n"
            "sentinel down-after-milliseconds shop 500\n"
            "sentinel failover-timeout shop 3000\n"
        )

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
        self.sentinel = Sentinel(folder / "sentinel", self.master)
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
    with pytest.raises(StoreUnavailable, match="no sentinel tells where master 'shop' is"):
        await app.session()
    await app.store.close()


def test_a_url_names_sentinels_master_and_database() -> None:
    assert parse("redis+sentinel://me:secret@h1,h2:7000/shop/3") == Watch(
        (("h1", 26379), ("h2", 7000)), "shop", 3, "me", "secret"
    )
    assert parse("redis+sentinel://h1/shop") == Watch((("h1", 26379),), "shop")


@pytest.mark.parametrize(
    "rest", ["", "h1", "h1/", "/shop", "h1:x/shop", "h1/shop/x", "h1/shop?a=1"]
)
def test_a_url_that_lacks_something_is_refused(rest: str) -> None:
    with pytest.raises(ConfigError, match="redis\\+sentinel://host1,host2/master/0"):
        parse(f"redis+sentinel://{rest}")
