"""A store as someone who may write to it can fill it: with jobs that no sender could send."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import redis

from headrace import Headrace
from headrace.core import codec
from headrace.core.flow.graph import Graph, GraphJob
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, Packing, encode_envelope
from headrace.core.job.history import Attempt, History
from headrace.core.job.outcome import Done
from headrace.core.job.parcel import Parcel
from headrace.core.job.verdict import done_verdict
from headrace.store.contract import Settlement, Store
from headrace.store.redis.keys import queues_key
from headrace.store.topics import Group, Position
from headrace.store.values import Report
from tests.admin.burying import bury

LARGE, COMPRESSED, EVENTS, OTHERS = 25, 60, 10, 3

Bytes = Callable[[str], bytes]
"""An envelope for a job with this id."""


class Sizes:
    """What is planted, at a scale; 1 is all of it."""

    def __init__(self, scale: float) -> None:
        self.large = round(700_000 * scale)
        self.unpacked = round(2_000_000 * scale)
        self.tags = round(1_000_000 * scale)
        self.attempts = round(100_000 * scale)
        self.parents = round(3_000_000 * scale)
        self.queues = round(200_000 * scale)
        self.huge = round(40_000_000 * scale)


def empty_lists(count: int) -> bytes:
    """An array of empty arrays, which takes seventy times its bytes when it is decoded."""
    return b"\xdd" + count.to_bytes(4, "big") + b"\x90" * count


def large(size: int) -> Bytes:
    return lambda id: encode_envelope(ids.to_id(id), "send", empty_lists(size))


def huge(size: int) -> Bytes:
    return lambda id: encode_envelope(ids.to_id(id), "send", codec.encode(["x" * size]))


def compressed(size: int) -> Bytes:
    data = zlib.compress(empty_lists(size), 9)
    packed = Overrides(packing=Packing(size + 5, "zlib"))
    return lambda id: encode_envelope(ids.to_id(id), "send", data, packed)


def tagged(count: int) -> Bytes:
    tags = Overrides(tags=tuple(f"tag-{number}" for number in range(count)))
    return lambda id: encode_envelope(ids.to_id(id), "send", b"\x90", tags)


def with_parents(count: int) -> Bytes:
    """Its graph says that it waits for so many."""
    last = GraphJob(b"last", 0, 0, tuple([0] * count))
    graph = codec.encode(Graph(("send",), (GraphJob(b"first", 0, 0), last)))
    overrides = Overrides(flow=b"last", graph=graph)
    return lambda id: encode_envelope(ids.to_id(id), "send", b"\x90", overrides)


def attempts(count: int) -> History:
    tried = [
        Attempt(number, 1_000, 2_000, "worker-1", "ValueError", f"no user {number}", "")
        for number in range(1, count + 1)
    ]
    return History(tuple(tried), count)


def kinds(sizes: Sizes) -> dict[str, tuple[int, Bytes]]:
    """How many of each kind there are, and what makes one."""
    return {
        "large": (LARGE, large(sizes.large)),
        "compressed": (COMPRESSED, compressed(sizes.unpacked)),
        "tagged": (OTHERS, tagged(sizes.tags)),
        "parents": (OTHERS, with_parents(sizes.parents)),
        "huge": (OTHERS, huge(sizes.huge)),
        "tried": (OTHERS, large(10)),
    }


async def plant(app: Headrace, scale: float) -> None:
    """Fill the store."""
    store, sizes = (await app.session()).store, Sizes(scale)
    history = attempts(sizes.attempts)
    for kind, (count, made) in kinds(sizes).items():
        dead = [made(f"dead-{kind}-{number}") for number in range(count)]
        await bury(app, dead, queue=kind, history=history if kind == "tried" else None)
        for parts in _by_ten(range(count)):
            waiting = [f"waits-{kind}-{number}" for number in parts]
            await store.append(kind, [Parcel(ids.to_id(id), made(id)) for id in waiting])
    await _end_one(store, sizes)
    await _log_events(store, sizes)
    await _write_log(store, sizes)


def _by_ten(numbers: range) -> Iterator[Sequence[int]]:
    return (numbers[at : at + 10] for at in range(0, len(numbers), 10))


async def _end_one(store: Store, sizes: Sizes) -> None:
    """A job that is done, with results that are larger than they look."""
    for number in range(COMPRESSED):
        id = ids.to_id(f"done-{number}")
        await store.append("done", [Parcel(id, encode_envelope(id, "send", b"\x90"))])
    consumer = store.consumer("a-worker", ["done"], 3600.0)
    data = zlib.compress(empty_lists(sizes.unpacked), 9)
    verdict = done_verdict(data, packing=Packing(sizes.unpacked + 5, "zlib"))
    left = COMPRESSED
    while left:
        deliveries = await consumer.fetch(left, 1.0)
        for number, delivery in enumerate(deliveries):
            delivery.job_id = ids.to_id(f"done-{COMPRESSED - left + number}")
        left -= len(deliveries)
        done = [Settlement(each, Done(verdict, 3_600_000)) for each in deliveries]
        await consumer.settle("done", done)
    await consumer.close()


async def _log_events(store: Store, sizes: Sizes) -> None:
    await store.join("billing@orders", Group(), Position("start"))
    data = zlib.compress(empty_lists(sizes.unpacked), 9)
    packed = Overrides(packing=Packing(sizes.unpacked + 5, "zlib"))
    for number in range(EVENTS):
        id = ids.to_id(f"event-{number}")
        await store.publish("@orders", [Parcel(id, encode_envelope(id, "@orders", data, packed))])


async def _write_log(store: Store, sizes: Sizes) -> None:
    line = "x" * (sizes.huge // 1_000)
    id = ids.to_id("waits-large-0")
    await store.report("large", [Report(id, lines=(line,) * 1_000)])


def name_queues(url: str, namespace: str, scale: float) -> None:
    """Write the names of many queues into the store, as an `append` to each would."""
    names = [f"queue-{number}" for number in range(Sizes(scale).queues)]
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        with sqlite3.connect(path) as connection:
            rows = ((namespace, name) for name in names)
            connection.executemany("INSERT INTO queues (namespace, name) VALUES (?, ?)", rows)
        connection.close()
        return
    with redis.Redis.from_url(url) as server:
        for at in range(0, len(names), 10_000):
            server.sadd(queues_key(namespace), *names[at : at + 10_000])
