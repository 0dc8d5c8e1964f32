"""Redis with replicas: sends that wait for them, and what settings may lose jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace import ConfigError, EnqueueUnknown, Headrace, State
from headrace.store.redis.connection import confirmation
from headrace.store.redis.keys import QueueKeys
from tests.faults.crew import LONG, eventually
from tests.servers import RedisCluster, RedisServer, newest_server_binary

DURABLE = {"appendonly": "yes"}
# A replica has its data as soon as it is there.
AT_ONCE = {"repl-diskless-sync-delay": "0"}


class Copied:
    """A master and its two replicas."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        for name in ("master", "one", "two"):
            (folder / name).mkdir()
        self.master = stack.enter_context(RedisServer(folder / "master", AT_ONCE | DURABLE))
        follows = {"replicaof": f"127.0.0.1 {self.master.port}"}
        self.replicas = [
            stack.enter_context(RedisServer(folder / name, follows)) for name in ("one", "two")
        ]

    @property
    def url(self) -> str:
        return self.master.url

    async def ready(self) -> None:
        await eventually("both follow", lambda: self._online() == 2)

    def _online(self) -> int:
        info: bytes = self.master.ask("INFO", "replication")
        return info.count(b"state=online")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    with ExitStack() as stack:
        yield Copied(stack, tmp_path_factory.mktemp("replicas"))


@pytest.fixture
async def copied(started: Copied) -> Copied:
    await started.ready()
    started.master.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    return started


def shop(url: str, namespace: str, **settings: int) -> Headrace:
    app = Headrace(url, namespace=namespace, **settings)  # type: ignore[arg-type]

    @app.task
    async def work() -> None: ...

    app.topic("orders", bytes, codec="raw")
    return app


def has_job(server: RedisServer, namespace: str, queue: str = "default") -> bool:
    length: int = server.ask("XLEN", QueueKeys(namespace, queue).ready)
    return length == 1


async def test_a_confirmed_send_returns_when_replicas_have_it(
    copied: Copied, namespace: str
) -> None:
    async with shop(copied.url, namespace, confirm_replicas=2) as app:
        await app.tasks["work"].enqueue()
        assert all(has_job(replica, namespace) for replica in copied.replicas)
        await app.topics["orders"].publish(b"paid")
        assert all(has_job(replica, namespace, "@orders") for replica in copied.replicas)


async def test_a_send_that_is_not_confirmed_is_unknown_and_can_be_repeated(
    copied: Copied, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "WAIT_MS", 50)
    asleep = copied.replicas[0]
    async with shop(copied.url, namespace, confirm_replicas=2) as app:
        work, orders = app.tasks["work"].options(id="one"), app.topics["orders"]
        asleep.pause()
        try:
            tries = [work.enqueue(), orders.publish(b"paid", id="paid")]
            errors = await asyncio.gather(*tries, return_exceptions=True)
        finally:
            asleep.resume()
        for error in errors:
            assert isinstance(error, EnqueueUnknown)
            assert "1 of 2 replicas confirmed it" in str(error)
        async with asyncio.timeout(LONG):
            await sent_at_last(app)
        assert (await app.admin.queue("default")).waiting == 1
        assert await app.job("one").status() is State.WAITING
        assert has_job(asleep, namespace)
        assert has_job(asleep, namespace, "@orders")


async def sent_at_last(app: Headrace) -> None:
    """Until the replica that slept has caught up."""
    while True:
        try:
            await app.tasks["work"].options(id="one").enqueue()
            await app.topics["orders"].publish(b"paid", id="paid")
            return
        except EnqueueUnknown:
            continue


async def test_a_send_that_may_not_wait_is_unknown(copied: Copied, namespace: str) -> None:
    copied.master.ask("ACL", "SETUSER", "hasty", "on", ">pass", "~*", "&*", "+@all", "-wait")
    url = copied.url.replace("//", "//hasty:pass@")
    async with shop(url, namespace, confirm_replicas=1) as app:
        with pytest.raises(EnqueueUnknown, match=r"could not be confirmed.*wait"):
            await app.tasks["work"].enqueue()


async def test_sends_wait_for_no_replica_unless_asked_to(
    redis_server: RedisServer, namespace: str
) -> None:
    async with shop(redis_server.url, namespace) as app:
        await app.tasks["work"].enqueue()
    assert b"cmdstat_wait:" not in redis_server.ask("INFO", "commandstats")


async def test_sends_to_a_cluster_are_confirmed(tmp_path: Path, namespace: str) -> None:
    with RedisCluster(tmp_path, masters=1, replicas=1, settings=AT_ONCE) as cluster:
        async with shop(cluster.url, namespace, confirm_replicas=1) as app:
            await app.tasks["work"].enqueue()
            (copy,) = cluster.replicas
            # A replica hands nobody its keys unless it is told that reads are wanted.
            assert b"keys=" in copy.ask("INFO", "keyspace")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_a_store_without_replicas_refuses_to_confirm(url: str) -> None:
    with pytest.raises(ConfigError, match="confirm_replicas is for Redis"):
        Headrace(url, confirm_replicas=1)
    assert Headrace(url, confirm_replicas=0).confirm_replicas == 0


def test_confirm_replicas_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONFIRM_REPLICAS", "2")
    assert Headrace("redis://localhost").confirm_replicas == 2
    with pytest.raises(ConfigError, match="confirm_replicas must be a whole number"):
        Headrace("redis://localhost", confirm_replicas=-1)


# What is said at the start


def said(caplog: pytest.LogCaptureFixture, level: int) -> str:
    return "\n".join(each.getMessage() for each in caplog.records if each.levelno == level)


async def open_and_close(url: str, **settings: int) -> None:
    async with Headrace(url, **settings):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize(
    ("wanted", "confirmed", "warns"), [("0", 0, True), ("1", 0, True), ("2", 0, False), ("0", 2, 0)]
)
async def test_fewer_replicas_than_there_are_is_warned_of(
    copied: Copied, caplog: pytest.LogCaptureFixture, wanted: str, confirmed: int, warns: bool
) -> None:
    copied.master.ask("CONFIG", "SET", "min-replicas-to-write", wanted)
    await open_and_close(copied.url, confirm_replicas=confirmed)
    warned = f"min-replicas-to-write is {wanted} and there are 2 replicas"
    assert (warned in said(caplog, logging.WARNING)) is bool(warns)
    if warns:
        with pytest.raises(ConfigError, match=f"require_durable: {warned}"):
            await open_and_close(copied.url, require_durable=True)
    elif not confirmed:
        await open_and_close(copied.url, require_durable=True)


@pytest.mark.parametrize("wanted", ["0", "1"])
async def test_without_config_it_is_said_what_could_not_be_read(
    copied: Copied, caplog: pytest.LogCaptureFixture, wanted: str
) -> None:
    caplog.set_level(logging.INFO)
    copied.master.ask("CONFIG", "SET", "min-replicas-to-write", wanted)
    copied.master.ask("ACL", "SETUSER", "plain", "on", ">pass", "~*", "&*", "+@all", "-config")
    await open_and_close(copied.url.replace("//", "//plain:pass@"))
    if wanted == "0":
        assert "min-replicas-to-write is 0 and there are 2" in said(caplog, logging.WARNING)
    else:
        assert "could not be read; it should be 2" in said(caplog, logging.INFO)


async def test_more_confirmations_than_there_are_replicas_are_warned_of(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await open_and_close(redis_server.url, confirm_replicas=1)
    assert "has 0 replicas, and confirm_replicas is 1" in said(caplog, logging.WARNING)


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("durable"), DURABLE) as server:
        yield server


@pytest.mark.parametrize(
    ("policy", "maxmemory", "risk"),
    [
        ("allkeys-lru", "100mb", "jobs may be evicted"),
        ("allkeys-random", "0", "with a maxmemory, jobs would be evicted"),
        ("volatile-ttl", "100mb", "results, counts of rates and unique names"),
        (
            "volatile-lru",
            "100mb",
            "records of requests: one that is repeated is then applied twice",
        ),
        ("volatile-ttl", "0", ""),
        ("noeviction", "100mb", ""),
    ],
)
async def test_a_server_that_evicts_is_warned_of_and_is_not_durable(
    durable: RedisServer,
    caplog: pytest.LogCaptureFixture,
    policy: str,
    maxmemory: str,
    risk: str,
) -> None:
    durable.ask("CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", maxmemory)
    await open_and_close(durable.url)
    assert (f"maxmemory-policy is {policy}" in said(caplog, logging.WARNING)) is bool(risk)
    assert risk in said(caplog, logging.WARNING)
    if risk:
        with pytest.raises(ConfigError, match=risk):
            await open_and_close(durable.url, require_durable=True)
    else:
        await open_and_close(durable.url, require_durable=True)


async def test_a_server_that_keeps_nothing_is_warned_of(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await open_and_close(redis_server.url)
    assert "appendonly is off" in said(caplog, logging.WARNING)


@pytest.fixture
def newest_server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, DURABLE, binary=newest_server_binary()) as server:
        yield server


async def test_a_send_returns_when_it_is_on_disk(
    newest_server: RedisServer, namespace: str
) -> None:
    async with shop(newest_server.url, namespace, confirm_disk=True) as app:
        await app.tasks["work"].enqueue()
        await app.topics["orders"].publish(b"paid")
    stats: bytes = newest_server.ask("INFO", "commandstats")
    assert b"cmdstat_waitaof:calls=" in stats
    assert has_job(newest_server, namespace)


async def test_a_send_that_a_disk_does_not_confirm_is_unknown(
    newest_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "WAIT_FOR_DISK_MS", 20)
    newest_server.ask("CONFIG", "SET", "appendfsync", "no")
    async with shop(newest_server.url, namespace, confirm_disk=True, confirm_replicas=1) as app:
        with pytest.raises(EnqueueUnknown, match=r"disk|replicas"):
            await app.tasks["work"].enqueue()


async def test_a_server_that_cannot_show_its_disk_is_refused(
    redis_server: RedisServer, newest_server: RedisServer, namespace: str
) -> None:
    if b"redis_version:7.0" in redis_server.ask("INFO", "server"):
        with pytest.raises(ConfigError, match=r"confirm_disk needs Redis 7\.2"):
            await open_and_close(redis_server.url, confirm_disk=True)
    newest_server.ask("CONFIG", "SET", "appendonly", "no")
    with pytest.raises(ConfigError, match="confirm_disk needs appendonly"):
        await open_and_close(newest_server.url, confirm_disk=True)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_sqlite_refuses_to_confirm_its_disk(url: str) -> None:
    with pytest.raises(ConfigError, match="confirm_disk is for Redis"):
        Headrace(url, confirm_disk=True)
