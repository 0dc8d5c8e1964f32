"""Reads that wait at several places at once, when their server dies."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.errors import StoreUnavailable
from headrace.store.redis import script_stubs
from headrace.store.redis.store import RedisStore
from headrace.store.topics import Group, Position
from headrace.testing.conformance.ground import parcel
from tests.faults.crew import LONG, eventually
from tests.servers import RedisServer

QUEUE = "ledger@orders"


def client_of(server: RedisServer, command: str) -> str:
    """The connection whose last command this was."""
    clients: bytes = server.ask("CLIENT", "LIST")
    for line in clients.decode().splitlines():
        fields = dict(part.split("=", 1) for part in line.split())
        if fields["cmd"] == command:
            return fields["id"]
    raise AssertionError(f"nobody has sent {command}")


@pytest.fixture
def unseen() -> list[dict[str, Any]]:
    """What the event loop complains of."""
    return []


async def test_no_error_goes_unseen_when_the_server_dies_under_a_read(
    redis_server: RedisServer, namespace: str, unseen: list[dict[str, Any]]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    store = RedisStore(redis_server.url, namespace=namespace, crash_limit=3)
    await store.open()
    await store.join(QUEUE, Group(ordered=True), Position("start"))
    member = store.consumer("one", [QUEUE], 30.0)
    reading = asyncio.create_task(member.fetch(1, 5))
    # The queue of the group, and its log.
    await eventually(
        "both reads wait", lambda: b"blocked_clients:2" in redis_server.ask("INFO", "clients")
    )
    # One of the connections breaks, nobody can end the wait of the other, and then that breaks too.
    redis_server.ask("ACL", "SETUSER", "default", "-client|unblock")
    redis_server.ask("CLIENT", "KILL", "ID", client_of(redis_server, "xread"))
    await asyncio.sleep(0.2)
    redis_server.kill()
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(LONG):
            await reading
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    with pytest.raises(StoreUnavailable):
        await member.close()
    await store.close()
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []


@pytest.mark.parametrize("runner", RUNNERS)
async def test_jobs_of_one_runner_without_priorities_are_read_without_a_script(
    redis_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> None:
    """Bytes that pass through Lua cost ten times as much."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it was read by a script")

    monkeypatch.setattr(script_stubs, "fetch", refuse)
    store = RedisStore(redis_server.url, namespace=namespace, crash_limit=3)
    await store.open()
    await store.append("q", [parcel(runner=runner) for _ in range(400)])
    worker = store.consumer("one", ["q"], 30.0)
    assert await worker.fetch(1, 0, Capacity(0, 0, 0)) == []
    redis_server.ask("CONFIG", "RESETSTAT")
    taken = 0
    while taken < 400:
        taken += len(await worker.fetch(50, 0, Capacity(50, 50, 50)))
    stats: bytes = redis_server.ask("INFO", "commandstats")
    (line,) = [each for each in stats.decode().splitlines() if "xreadgroup" in each]
    # One for each 50, and one more each time that the other streams were looked at too.
    assert int(line.split("calls=")[1].split(",")[0]) <= (8 if runner == "loop" else 24)
    await worker.close()
    await store.close()


async def test_a_notification_outlives_an_answer_that_was_on_its_way(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is about may have happened after the answer was made."""
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    worker = store.consumer("one", ["q"], 30.0)
    source = worker._sources["q"]
    asked, notifications = script_stubs.create_groups, [1]

    async def notified_meanwhile(*args: Any, **kwargs: Any) -> Any:
        answer = await asked(*args, **kwargs)
        if notifications:
            notifications.pop()
            source.doubt()
        return answer

    monkeypatch.setattr(script_stubs, "create_groups", notified_meanwhile)
    stale: list[bool] = []
    for _ in range(2):
        assert await worker.fetch(1, 0) == []
        stale.append(source.is_stale)
    assert stale == [True, False]
    await worker.close()
    await store.close()
