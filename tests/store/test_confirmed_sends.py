"""Sends that ask, each for itself, to be on replicas or on disk before they return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, EnqueueUnknown, Headrace, chain
from headrace.store.redis.connection import confirmation
from tests.servers import RedisCluster, RedisServer, newest_server_binary
from tests.store.test_redis_replicas import AT_ONCE, DURABLE, Copied, has_job, shop


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    with ExitStack() as stack:
        yield Copied(stack, tmp_path_factory.mktemp("replicas"))


@pytest.fixture
async def copied(started: Copied) -> Copied:
    await started.ready()
    return started


def waits(server: RedisServer, command: str = "wait") -> int:
    """How many times the server was asked to wait."""
    stats: bytes = server.ask("INFO", "commandstats")
    found = [line for line in stats.splitlines() if line.startswith(f"cmdstat_{command}:".encode())]
    return int(found[0].partition(b"calls=")[2].partition(b",")[0]) if found else 0


async def send_one_of_each(app: Headrace, confirm: Any) -> AsyncIterator[None]:
    """Yields after each send."""
    plain, orders = app.tasks["work"], app.topics["orders"]
    work = plain.options(confirm=confirm)
    await work.enqueue()
    yield
    await app.enqueue_many([plain.call(), work.call()])
    yield
    await app.enqueue(chain(plain.call(), work.call()))
    yield
    await orders.publish(b"paid", confirm=confirm)
    yield
    assert (await orders.publish_many([b"1", b"2"], confirm=confirm)).ok
    yield


async def each_is_waited_for(
    app: Headrace, server: RedisServer, confirm: str, command: str = "wait"
) -> None:
    before = waits(server, command)
    async for _ in send_one_of_each(app, confirm):
        # Twice, if the server did not know the script.
        assert before < (before := waits(server, command))


async def test_a_send_that_asks_returns_when_a_replica_has_it(
    copied: Copied, namespace: str
) -> None:
    async with shop(copied.url, namespace) as app:
        await app.tasks["work"].options(confirm="replicated").enqueue()
        assert any(has_job(replica, namespace) for replica in copied.replicas)
        await app.topics["orders"].publish(b"paid", confirm="replicated")
        assert any(has_job(replica, namespace, "@orders") for replica in copied.replicas)
        before = waits(copied.master)
        assert before >= 2
        await app.tasks["work"].enqueue()
        await app.topics["orders"].publish(b"paid")
        assert waits(copied.master) == before


async def test_each_kind_of_send_can_ask(copied: Copied, namespace: str) -> None:
    async with shop(copied.url, namespace) as app:
        await each_is_waited_for(app, copied.master, "replicated")


@contextmanager
def silent(replicas: Sequence[RedisServer]) -> Iterator[None]:
    for replica in replicas:
        replica.pause()
    try:
        yield
    finally:
        for replica in replicas:
            replica.resume()


def asking(app: Headrace) -> list[asyncio.Task[Any]]:
    """Sends that ask to be on a replica."""
    work, orders = app.tasks["work"], app.topics["orders"]
    return [
        asyncio.create_task(work.options(confirm="replicated", id="one").enqueue()),
        asyncio.create_task(orders.publish(b"paid", confirm="replicated")),
    ]


async def test_only_sends_that_ask_are_held_up_by_a_silent_replica(
    copied: Copied, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "WAIT_MS", 60_000)
    async with shop(copied.url, namespace) as app:
        with silent(copied.replicas):
            held_up = asking(app)
            await app.tasks["work"].enqueue()
            await app.topics["orders"].publish(b"paid")
            assert not any(task.done() for task in held_up)
        await asyncio.gather(*held_up)


async def test_a_send_that_a_silent_replica_does_not_confirm_says_so(
    copied: Copied, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "WAIT_MS", 50)
    async with shop(copied.url, namespace) as app:
        with silent(copied.replicas):
            errors = await asyncio.gather(*asking(app), return_exceptions=True)
        for error in errors:
            assert isinstance(error, EnqueueUnknown)
            assert "0 of 1 replicas confirmed it" in str(error)


async def test_what_the_app_asks_for_is_asked_for_too(
    copied: Copied, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "WAIT_MS", 50)
    async with shop(copied.url, namespace, confirm_replicas=3) as app:
        with pytest.raises(EnqueueUnknown, match="2 of 3 replicas"):
            await app.tasks["work"].options(confirm="replicated").enqueue()


async def test_a_send_that_asks_is_on_disk(tmp_path: Path, namespace: str) -> None:
    with RedisServer(tmp_path, DURABLE, binary=newest_server_binary()) as server:
        async with shop(server.url, namespace) as app:
            await app.tasks["work"].enqueue()
            assert waits(server, "waitaof") == 0
            await each_is_waited_for(app, server, "disk", "waitaof")


async def test_a_server_that_cannot_show_its_disk_is_refused_before_anything_is_sent(
    redis_server: RedisServer, namespace: str
) -> None:
    async with shop(redis_server.url, namespace) as app:
        with pytest.raises(ConfigError, match=r'confirm="disk" needs (Redis 7\.2|appendonly)'):
            await app.tasks["work"].options(confirm="disk").enqueue()
        with pytest.raises(ConfigError, match='confirm="disk" needs'):
            await app.topics["orders"].publish(b"paid", confirm="disk")
        assert not has_job(redis_server, namespace)
        assert not has_job(redis_server, namespace, "@orders")


async def test_sends_to_a_cluster_can_ask(tmp_path: Path, namespace: str) -> None:
    with RedisCluster(tmp_path, masters=1, replicas=1, settings=AT_ONCE) as cluster:
        async with shop(cluster.url, namespace) as app:
            (master,) = cluster.masters
            await each_is_waited_for(app, master, "replicated")
            with pytest.raises(ConfigError, match='confirm="disk" needs'):
                await app.tasks["work"].options(confirm="disk").enqueue()


@pytest.mark.parametrize("confirm", ["replicated", "disk"])
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_the_commit_of_sqlite_is_the_answer(url: str, confirm: str, tmp_path: Path) -> None:
    async with shop(url.format(tmp_path), "shop") as app:
        assert len([None async for _ in send_one_of_each(app, confirm)]) == 5
        assert (await app.admin.queue("default")).waiting == 4


async def test_an_unknown_confirmation_is_refused_when_it_is_given() -> None:
    app = shop("memory://", "shop")
    odd: Any = "quorum"
    said = r"\(confirm=\) must be 'replicated' or 'disk', not 'quorum'"
    with pytest.raises(ConfigError, match=rf"options{said}"):
        app.tasks["work"].options(confirm=odd)
    with pytest.raises(ConfigError, match=rf"publish{said}"):
        await app.topics["orders"].publish(b"paid", confirm=odd)


async def test_nobody_waits_for_the_jobs_of_schedules_and_outboxes() -> None:
    app = shop("memory://", "shop")
    asking = app.tasks["work"].options(confirm="disk")
    with pytest.raises(ConfigError, match="nobody waits for the jobs of a schedule"):
        await app.schedules.upsert("daily", asking.call(), every=60)
    with pytest.raises(ConfigError, match="what an outbox takes is certain"):
        app.topics["orders"].prepare(b"paid", confirm="disk")
