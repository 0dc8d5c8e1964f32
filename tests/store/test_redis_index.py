"""The index of a Redis queue: where each job is, in many small hashes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest
import redis

from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import Done
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Settlement
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.store import RedisStore
from headrace.store.topics import Group, Position
from headrace.testing.conformance.ground import known, parcel
from headrace.testing.conformance.topics.topic_ground import event
from tests.servers import RedisServer

NAMESPACE, QUEUE = "shop", "mail"
KEYS = QueueKeys(NAMESPACE, QUEUE)
PACKED = 128
"""How many fields a hash may have that the server packs, unless told otherwise."""


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_server.url, namespace=NAMESPACE, crash_limit=3)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(redis_server.url)) as server:
        yield server


def buckets(server: redis.Redis, keys: QueueKeys = KEYS) -> dict[bytes, int]:
    """How many jobs each bucket has."""
    names = server.scan_iter(f"{keys.jobs}*", count=10_000)
    return {name: server.hlen(name) for name in names}


def calls_of(server: redis.Redis, command: str) -> int:
    found = server.info("commandstats").get(f"cmdstat_{command}", {})
    return int(found.get("calls", 0))


async def drain(store: RedisStore, queue: str = QUEUE) -> int:
    worker, count = store.consumer("worker", [queue], 30.0), 0
    while taken := known(await worker.fetch(100, 0)):
        await worker.settle(queue, [Settlement(each, Done()) for each in taken])
        count += len(taken)
    await worker.close()
    return count


CHOSEN = [
    "a",
    "order-17",
    "x" * 15,
    "x" * 256,
    "ü",
    "ü" * 7 + "x",
    "3d000000-0000-7000-8000-000000000000",
]


@pytest.mark.parametrize(
    "job_id",
    [bytes(range(16)), *map(ids.to_id, CHOSEN), b"\x00", b"foreign", b"\xff" * 16],
    ids=lambda job_id: job_id[:20].hex(),
)
async def test_scripts_and_python_name_the_same_bucket(
    store: RedisStore, server: redis.Redis, job_id: JobId
) -> None:
    await store.append(QUEUE, [Parcel(job_id, parcel().envelope)], may_exist=True)
    assert buckets(server) == {KEYS.bucket_of(job_id): 1}
    (place,) = server.hvals(KEYS.bucket_of(job_id))
    assert isinstance(place, bytes)
    assert re.fullmatch(rb"\d+-\d+", place)
    assert await store.append(QUEUE, [Parcel(job_id, b"\xc0")], may_exist=True) == {0: job_id}


async def test_a_batch_shares_buckets_that_the_server_packs(
    store: RedisStore, server: redis.Redis
) -> None:
    await store.append(QUEUE, [parcel() for _ in range(1000)])
    sizes = buckets(server)
    assert sum(sizes.values()) == 1000
    assert len(sizes) <= 1000 // ids.BUCKET_SIZE + 2
    assert max(sizes.values()) <= ids.BUCKET_SIZE
    assert {server.object("encoding", name) for name in sizes} == {b"listpack"}


async def test_a_batch_takes_a_command_for_each_bucket_not_for_each_job(
    store: RedisStore, server: redis.Redis
) -> None:
    before = {name: calls_of(server, name) for name in ("hset", "hmget", "hdel")}
    await store.append(QUEUE, [parcel() for _ in range(500)])
    assert await drain(store) == 500
    for name, most in {"hset": 20, "hmget": 20, "hdel": 32}.items():
        assert calls_of(server, name) - before[name] <= most


async def test_jobs_of_senders_that_take_turns_are_put_together(
    store: RedisStore, server: redis.Redis
) -> None:
    """A worker meets jobs of many senders in one batch."""
    jobs = []
    for sender in range(4):
        ids.change_bucket()
        jobs += [(number, sender, parcel()) for number in range(ids.BUCKET_SIZE)]
    turns = [each for _, _, each in sorted(jobs, key=lambda each: each[:2])]
    before = calls_of(server, "hset")
    await store.append(QUEUE, turns)
    assert calls_of(server, "hset") - before == 4
    assert sorted(buckets(server).values()) == [ids.BUCKET_SIZE] * 4
    assert await drain(store) == 4 * ids.BUCKET_SIZE
    assert buckets(server) == {}


async def test_what_is_done_leaves_no_bucket(store: RedisStore, server: redis.Redis) -> None:
    await store.append(QUEUE, [parcel() for _ in range(150)])
    await store.append(QUEUE, [parcel(job_id=f"order-{number}") for number in range(150)])
    assert await drain(store) == 300
    assert buckets(server) == {}


@pytest.mark.parametrize(
    "form",
    [
        "order-{}",
        *(pytest.param(f, marks=pytest.mark.nightly) for f in ("{:07}-order", "{:x}", "{0}/{0}")),
    ],
)
def test_a_million_chosen_ids_stay_in_small_buckets(form: str) -> None:
    chosen = (ids.to_id(form.format(number)) for number in range(1_000_000))
    marks = Counter(job_id[:-1] for job_id in chosen)
    sizes: Counter[bytes] = Counter()
    for mark, count in marks.items():
        # They differ in the last byte, and share a bucket.
        sizes[KEYS.bucket_of(mark + b"0")] += count
    assert max(sizes.values()) <= PACKED


async def test_chosen_ids_of_a_batch_share_buckets(store: RedisStore, server: redis.Redis) -> None:
    jobs = [parcel(job_id=f"order-{number:05}") for number in range(500)]
    await store.append(QUEUE, jobs, may_exist=True)
    assert len(buckets(server)) <= 50
    assert await store.append(QUEUE, jobs, may_exist=True) == {
        at: each.job_id for at, each in enumerate(jobs)
    }


async def test_a_server_that_packs_nothing_keeps_the_index_as_well(
    store: RedisStore, server: redis.Redis
) -> None:
    server.config_set("hash-max-listpack-entries", 0)
    sent = [parcel() for _ in range(100)]
    await store.append(QUEUE, sent)
    assert {server.object("encoding", name) for name in buckets(server)} == {b"hashtable"}
    assert (await store.locate([QUEUE], sent[50].job_id)) is not None
    assert await drain(store) == 100
    assert buckets(server) == {}


async def test_dead_and_blocked_jobs_are_found(store: RedisStore, server: redis.Redis) -> None:
    """Through a hundred buckets, page by page."""
    in_lane = Constraints(lane="a")
    blocked = [parcel(job_id=f"{number:04}0", constraints=in_lane) for number in range(100)]
    await store.append(QUEUE, [parcel(constraints=in_lane), *blocked])
    assert len(buckets(server)) > 90
    found, cursor = set(), ""
    while True:
        page = await store.browse(QUEUE, State.BLOCKED, cursor, 7)
        found |= set(page.job_ids)
        if not (cursor := page.cursor):
            break
    assert found == {each.job_id for each in blocked}
    assert (await store.count(QUEUE)).blocked == 100


async def test_a_page_of_blocked_jobs_ends_early_if_they_are_large(
    store: RedisStore, server: redis.Redis
) -> None:
    in_lane = Constraints(lane="a")
    jobs = [parcel(payload=b"x" * 100_000, constraints=in_lane) for _ in range(200)]
    await store.append(QUEUE, jobs)
    page = await store.browse(QUEUE, State.BLOCKED, "", 200)
    assert page.cursor
    found = set(page.job_ids)
    while page.cursor:
        page = await store.browse(QUEUE, State.BLOCKED, page.cursor, 200)
        found |= set(page.job_ids)
    assert found == {each.job_id for each in jobs[1:]}


@pytest.mark.parametrize("delay_ms", [0, 3_600_000])
async def test_a_queue_is_removed_with_its_buckets(
    store: RedisStore, server: redis.Redis, delay_ms: int
) -> None:
    await store.append(QUEUE, [parcel(delay_ms=delay_ms) for _ in range(300)])
    assert await store.remove(QUEUE) == 300
    assert len(buckets(server)) >= 300 // ids.BUCKET_SIZE
    assert await store.remove(QUEUE, force=True) == 0
    assert buckets(server) == {}


@pytest.mark.parametrize("place", ["1-1", "s", "S", "k", "g", "f", "d1-1"])
async def test_a_place_that_is_left_of_a_removed_queue_does_not_count(
    store: RedisStore, server: redis.Redis, place: str
) -> None:
    job, constrained = parcel(job_id="order-17"), parcel(job_id="b", constraints=Constraints(5))
    for each in (job, constrained):
        server.hset(KEYS.bucket_of(each.job_id), each.job_id, place)
    assert await store.append(QUEUE, [job, constrained], may_exist=True) == {}
    assert (await store.count(QUEUE)).waiting == 2


async def test_a_place_that_is_left_of_a_removed_log_does_not_count(
    store: RedisStore, server: redis.Redis
) -> None:
    keys = QueueKeys(NAMESPACE, "@orders")
    for name, place in (("a", "1-1"), ("b", "s")):
        server.hset(keys.bucket_of(ids.to_id(name)), ids.to_id(name), place)
    sent = [event(event_id=name) for name in ("a", "b")]
    answer = await store.publish("@orders", sent, may_exist=True)
    assert answer.known == ()
    assert len(await store.read("@orders")) == 2


async def test_a_group_that_is_removed_leaves_no_place(
    store: RedisStore, server: redis.Redis
) -> None:
    """Its successor of the same name would take these events for known, and skip them."""
    group, ordered = "billing@orders", Group(ordered=True)
    await store.join(group, ordered, Position("start"))
    await store.publish("@orders", [event(key="k") for _ in range(150)])
    worker = store.consumer("worker", [group], 30.0)
    assert len(await worker.fetch(10, 0)) == 1
    keys = QueueKeys(NAMESPACE, group)
    assert sum(buckets(server, keys).values()) >= 100
    assert await store.disband(group)
    assert buckets(server, keys) == {}
    await worker.close()
