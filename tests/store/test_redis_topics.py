"""Topics on Redis: what only its streams can do to them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from headrace.core.job.outcome import DONE, Dead
from headrace.errors import StoreUnavailable
from headrace.store.contract import Settlement
from headrace.store.redis.read.group_reader import GroupReader
from headrace.store.redis.store import RedisStore
from headrace.store.topics import Group, Position
from headrace.testing.conformance.topics.topic_ground import event

LOG, QUEUE = "@orders", "ledger@orders"
ORDERED = Group(ordered=True)
NEW, START = Position("new"), Position("start")


@pytest.fixture
async def store(redis_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize(
    "fields",
    [
        ("j", b"\x94\x01\xc4"),
        ("j", b"\x94\x01\xc5\x01"),
        ("j", b""),
        ("j", b"garbage", "t", b"not constraints"),
        ("j", b"garbage", "t", b"\x05"),
        ("other", b"thing"),
    ],
)
@pytest.mark.parametrize("group", [Group(), ORDERED], ids=["plain", "ordered"])
async def test_a_broken_entry_takes_no_other_along(
    store: RedisStore, group: Group, fields: tuple[str | bytes, ...]
) -> None:
    await store.join(QUEUE, group, START)
    good = [event(key="a") for _ in range(4)]
    await store.publish(LOG, good[:2])
    stream = store.keys(LOG).log
    await store.links().send.call("XADD", stream, "*", *fields, key=stream)
    await store.publish(LOG, good[2:])
    member = store.consumer("one", [QUEUE], 30.0)
    given = {each.job_id: each.envelope for each in good}
    seen: list[bytes] = []
    while found := await member.fetch(10, 0):
        seen += [each.envelope for each in found]
        for each in found:
            each.job_id = next((key for key, body in given.items() if body == each.envelope), b"")
        outcomes = [DONE if each.job_id else Dead("malformed", b"") for each in found]
        pairs = zip(found, outcomes, strict=True)
        await member.settle(QUEUE, [Settlement(each, outcome) for each, outcome in pairs])
    assert len(seen) == 5
    assert {each.envelope for each in good} < set(seen)
    assert (await store.count(QUEUE)).dead == 1
    while (await store.trim(LOG, retention_ms=0, gone_after_ms=10**9)).more:
        pass
    (dead,) = (await store.dead(QUEUE)).jobs
    assert await store.replay(QUEUE, [dead.job_id]) == [True]
    await member.close()


async def test_a_group_that_the_server_has_lost_begins_with_what_is_there(
    store: RedisStore, redis_url: str, namespace: str
) -> None:
    assert await store.join(QUEUE, Group(), NEW)
    await store.links().send.call("DEL", store.keys(LOG).log, key=store.keys(LOG).log)
    other = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    await other.publish(LOG, [event(), event()])
    await other.close()
    # As a worker does after an outage: it joined before, so these came after its beginning.
    assert await store.join(QUEUE, Group(), NEW)
    member = store.consumer("one", [QUEUE], 30.0)
    assert len(await member.fetch(10, 0)) == 2
    await member.close()


async def test_who_had_joined_does_not_bring_a_removed_group_back(
    store: RedisStore, redis_url: str, namespace: str
) -> None:
    await store.join(QUEUE, Group(), START)
    await store.publish(LOG, [event()])
    other = RedisStore(redis_url, namespace=namespace, crash_limit=3)
    assert await other.disband(QUEUE)
    assert not await store.join(QUEUE, Group(), START)
    assert (await store.groups([LOG]))[LOG] == []
    assert await other.join(QUEUE, Group(), NEW)
    await other.close()


async def test_a_reader_that_cannot_watch_its_log_says_so(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("too many clients")

    await store.join(QUEUE, ORDERED, START)
    monkeypatch.setattr(GroupReader, "_watch", fail)
    member = store.consumer("one", [QUEUE], 30.0)
    with pytest.raises(StoreUnavailable, match="too many clients"):
        await member.fetch(10, 5)
    monkeypatch.undo()
    await member.close()


async def test_who_waits_for_events_again_and_again_keeps_one_connection(
    store: RedisStore,
) -> None:
    await store.publish(LOG, [event()])
    cursor = (await store.read(LOG))[-1].cursor
    assert await store.read(LOG, cursor, wait=0.01) == []
    before = await _connections(store)
    for _ in range(20):
        assert await store.read(LOG, cursor, wait=0.001) == []
    assert await _connections(store) == before


async def _connections(store: RedisStore) -> int:
    """How many this store has of its own: the server is shared with other tests."""
    idle = store.links()._idle
    return sum(len(links) for links in idle.values())


async def test_a_long_log_is_not_counted_to_its_end(store: RedisStore) -> None:
    for _ in range(50):
        await store.publish(LOG, [event() for _ in range(500)])
    moment = int(time.time() * 1000) - 3_600_000
    await store.join(QUEUE, Group(), Position("time", at_ms=moment))
    (state,) = (await store.groups([LOG]))[LOG]
    assert 10_000 <= state.behind <= 25_000
