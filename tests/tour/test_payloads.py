"""Arguments, results and events by other codecs, and compressed, on every store."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pytest

from headrace import Headrace, Job, JobFailed, ResultUnreadable, chain
from headrace.core.job.envelope import decode_envelope
from headrace.core.payload.compression import Compression
from tests.tour.heard import Heard

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@dataclass
class Order:
    order_id: str
    paid: datetime
    place: PurePosixPath


class Odd:
    """Of a class that MessagePack and JSON do not know."""

    def __init__(self, value: int) -> None:
        self.value = value


class Pickled:
    name = "pickled"

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)  # noqa: S301


def odd(value: Odd, factor: int = 1, *, more: int = 0) -> Odd:
    return Odd(value.value * factor + more)


async def stored(app: Headrace, job: Job[Any]) -> Any:
    """The envelope of a job that waits."""
    store = (await app.session()).store
    (seen,) = await store.get("default", [job.job_id], bodies=True)
    assert seen is not None
    return decode_envelope(seen.envelope)


async def test_arguments_and_results_travel_as_json(app: Headrace) -> None:
    @app.task(codec="json")
    async def pay(order: Order, times: int = 1) -> list[Order]:
        return [order] * times

    order = Order("o-1", NOON, PurePosixPath("/a"))
    job = await pay.enqueue(order, times=2)
    sent = await stored(app, job)
    assert sent.overrides.content == "application/json"
    order_sent = b'{"order_id":"o-1","paid":"2026-11-16T12:00:00Z","place":"/a"}'
    assert sent.payload == b'{"order":' + order_sent + b',"times":2}'
    assert (await job.info()).arguments["times"] == 2
    async with app.worker():
        assert await job.result(timeout=20) == [order, order]
    seen = await app.admin.job(job.id)
    assert seen.result[0]["order_id"] == "o-1"


async def test_a_codec_of_ones_own_carries_what_others_cannot(app: Headrace) -> None:
    task = app.task(codec=Pickled())(odd)
    job = await task.options(headers={"a": "b"}).enqueue(Odd(20), more=2)
    assert (await stored(app, job)).overrides.content == "application/x-pickled"
    async with app.worker():
        assert (await job.result(timeout=20)).value == 22
    del app.tasks["odd"]
    with pytest.raises(ResultUnreadable, match="it comes as 'application/x-pickled'"):
        await app.job(job.id).result(timeout=20)


async def test_a_flow_hands_results_on_whatever_the_codecs_are(app: Headrace) -> None:
    @app.task(codec="json")
    async def first(n: int) -> int:
        return n + 1

    @app.task(codec=Pickled())
    async def second(n: int, times: int) -> int:
        return n * times

    @app.task
    async def third(n: int) -> str:
        return f"{n}!"

    flow = await app.enqueue(chain(first.call(1), second.call(times=5), third.call()))
    async with app.worker():
        assert await flow.result(timeout=20) == "10!"


@pytest.mark.parametrize("compress", ["zstd", "zlib"])
async def test_large_payloads_are_compressed_and_any_worker_reads_them(
    app: Headrace, compress: Compression
) -> None:
    async def double(text: str) -> str:
        return text * 2

    sending = app.task(name="double", compress=compress, compress_threshold=100)(double)
    small, large = await sending.enqueue("a" * 10), await sending.enqueue("a" * 10_000)
    assert (await stored(app, small)).overrides.packing is None
    envelope = await stored(app, large)
    assert len(envelope.payload) < 200
    assert envelope.overrides.packing.size == 10_009
    assert (await large.info()).arguments == {"text": "a" * 10_000}
    async with app.worker():
        assert await small.result(timeout=20) == "a" * 20
        assert await large.result(timeout=20) == "a" * 20_000
    # A worker that has no such setting.
    job = await sending.enqueue("b" * 10_000)
    del app.tasks["double"]
    app.task(name="double")(double)
    async with app.worker():
        assert await job.result(timeout=20) == "b" * 20_000


async def test_a_topic_compresses_its_events(app: Headrace, heard: Heard) -> None:
    logs = app.topic("logs", str, compress="zlib", key=lambda text: text[0])

    @logs.subscribe("all", begin="start")
    async def read(text: str) -> None:
        heard.add("read", text)

    await logs.publish("a" * 10_000)
    await logs.publish("b")
    assert [event.data for event in await logs.read()] == ["a" * 10_000, "b"]
    assert len((await logs.read())[0].raw) < 200
    shown = await app.admin.read("logs")
    assert [(event.size, event.data) for event in shown] == [(10_003, "a" * 10_000), (2, "b")]
    async with app.worker():
        await heard.until(read=2)
    assert sorted(map(len, heard["read"])) == [1, 10_000]


async def test_what_is_larger_than_the_worker_allows_is_dead_unread(app: Headrace) -> None:
    @app.task(compress="zlib")
    async def count(text: str) -> int:
        return len(text)

    app.max_payload, allowed = 100_000_000, app.max_payload
    job = await count.enqueue("a" * 5_000_000)
    app.max_payload = allowed
    async with app.worker():
        with pytest.raises(JobFailed, match="its data takes 5,000,011 bytes, the limit"):
            await job.result(timeout=20)
