"""Large payloads outside of the store, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import (
    EnqueueUnknown,
    Headrace,
    JobFailed,
    Offload,
    OffloadError,
    PayloadTooLarge,
    QueueFull,
    Reject,
    Retry,
    State,
    chain,
)
from headrace.errors import ConfigError, EventError
from tests.tour.heard import Heard
from tests.worker.states import reach, until


class Shelf:
    """Keeps payloads in memory, and fails as it is asked to."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.fails = 0

    async def put(self, key: str, data: bytes) -> None:
        self._fail()
        self.kept[key] = data

    def get(self, key: str) -> bytes:
        self._fail()
        return self.kept[key]

    def delete(self, key: str) -> None:
        del self.kept[key]

    def _fail(self) -> None:
        if self.fails > 0:
            self.fails -= 1
            raise ConnectionError("the shelf is away")

    @property
    def offload(self) -> Offload:
        return Offload(self.put, self.get, self.delete, threshold=1_000, max_payload=10_000_000)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


TEXT = "a" * 6_000_000
"""More than a store takes."""


async def test_a_payload_is_kept_elsewhere_until_its_job_has_ended(
    app: Headrace, shelf: Shelf
) -> None:
    @app.task(offload=shelf.offload)
    def count(text: str) -> int:
        return len(text)

    small, large = await count.enqueue("a"), await count.enqueue(TEXT)
    assert [len(data) for data in shelf.kept.values()] == [6_000_011]
    (key,) = shelf.kept
    seen = await app.admin.job(large.id)
    assert seen.arguments == {"offloaded": key, "bytes": 6_000_011}
    async with app.worker():
        assert await small.result(timeout=20) == 1
        assert await large.result(timeout=20) == 6_000_000
        many = await app.enqueue_many([count.call("b" * 2_000), count.call("b")])
        assert [await job.result(timeout=20) for job in many] == [2_000, 1]
    assert shelf.kept == {}


async def test_a_payload_that_cannot_be_had_is_asked_for_again(
    app: Headrace, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(offload=shelf.offload, retry=Retry(1), compress="zlib")
    async def count(text: str) -> int:
        return len(text)

    text = "".join(map(str, range(5_000)))
    job = await count.enqueue(text)
    assert len(shelf.kept) == 1
    shelf.fails = 1
    async with app.worker():
        assert await job.result(timeout=30) == len(text)
    assert "is put off, its payload cannot be had" in caplog.text
    assert "ConnectionError: the shelf is away" in caplog.text
    assert (await job.info()).attempt == 1


async def test_a_dead_job_keeps_its_payload_until_it_is_purged(app: Headrace, shelf: Shelf) -> None:
    ready = asyncio.Event()

    @app.task(offload=shelf.offload)
    async def check(text: str) -> int:
        if not ready.is_set():
            raise Reject("not yet")
        return len(text)

    first, second = await check.enqueue("a" * 2_000), await check.enqueue("b" * 2_000)
    async with app.worker():
        for job in (first, second):
            with pytest.raises(JobFailed, match="not yet"):
                await job.result(timeout=20)
        assert len(shelf.kept) == 2
        dead = await app.admin.dead("default")
        assert {each.arguments["bytes"] for each in dead} == {2_009}
        with pytest.raises(ConfigError, match="cannot be edited: its data, 2,009 bytes, is kept"):
            await app.admin.replay([first.id], edit={"text": ""})
        ready.set()
        await app.admin.replay([first.id])
        assert await first.result(timeout=20) == 2_000
        assert await app.admin.purge([second.id]) == 1
        await until(lambda: not shelf.kept)


async def test_what_is_not_sent_leaves_nothing_behind(app: Headrace, shelf: Shelf) -> None:
    app.queue("short", max_length=1)

    @app.task(queue="short", offload=shelf.offload)
    async def count(text: str) -> int:
        return len(text)

    shelf.fails = 1
    with pytest.raises(OffloadError, match=r"task 'count': .* nothing was sent: ConnectionError"):
        await count.enqueue("a" * 2_000)
    job = await count.options(id="one").enqueue("a" * 2_000)
    again = await count.options(id="one").enqueue("c" * 2_000)
    assert (again.id, len(shelf.kept)) == (job.id, 1)
    with pytest.raises(QueueFull):
        await count.enqueue("b" * 2_000)
    assert len(shelf.kept) == 1
    with pytest.raises(PayloadTooLarge, match="the limit is 10,000,000"):
        await count.enqueue("a" * 10_000_000)
    with pytest.raises(PayloadTooLarge, match="the limit is 4,194,304"):
        await app.schedules.upsert("nightly", count.call(TEXT), every=3600)
    assert await job.cancel()


async def test_flows_take_large_arguments_too(app: Headrace, shelf: Shelf) -> None:
    @app.task(offload=shelf.offload)
    async def count(text: str) -> int:
        return len(text)

    @app.task(offload=shelf.offload)
    async def add(n: int, text: str) -> int:
        return n + len(text)

    flow = await app.enqueue(chain(count.call("a" * 5_000), add.call(text="b" * 5_000)))
    assert len(shelf.kept) == 2
    async with app.worker():
        assert await flow.result(timeout=20) == 10_000
    assert shelf.kept == {}


async def test_an_event_is_kept_elsewhere_for_all_groups(
    app: Headrace, shelf: Shelf, heard: Heard
) -> None:
    scans = app.topic("scans", bytes, offload=shelf.offload, codec="raw")

    @scans.subscribe("ocr", begin="start")
    async def ocr(scan: bytes) -> None:
        heard.add("ocr", len(scan))

    @scans.subscribe("thumbs", batch=10, begin="start")
    async def thumbs(scans: list[bytes]) -> None:
        for scan in scans:
            heard.add("thumbs", len(scan))

    await scans.publish(bytes(6_000_000))
    await scans.publish_many([b"x", bytes(2_000)])
    assert sorted(map(len, shelf.kept.values())) == [2_000, 6_000_000]
    assert [len(event.data) for event in await scans.read()] == [6_000_000, 1, 2_000]
    (shown, *_) = await app.admin.read("scans")
    assert (shown.size, shown.data["bytes"]) == (6_000_000, 6_000_000)
    async with app.worker():
        await heard.until(ocr=3, thumbs=3)
    assert sorted(heard["thumbs"]) == sorted(heard["ocr"]) == [1, 2_000, 6_000_000]
    assert len(shelf.kept) == 2
    shelf.fails = 1
    with pytest.raises(OffloadError, match="topic 'scans'"):
        await scans.publish(bytes(5_000))
    shelf.kept.clear()
    with pytest.raises(EventError, match="6,000,000 bytes, is kept outside of the store"):
        _ = (await scans.read())[0].data


async def test_a_worker_without_the_offload_leaves_the_job_to_others(
    app: Headrace, shelf: Shelf
) -> None:
    async def count(text: str) -> int:
        return len(text)

    sending = app.task(name="count", offload=shelf.offload)(count)
    job = await sending.enqueue("a" * 2_000)
    app.tasks["count"] = Headrace("memory://").task(name="count")(count)
    async with app.worker():
        await reach([job], State.SCHEDULED)
    app.tasks["count"] = sending
    async with app.worker():
        assert await job.result(timeout=30) == 2_000


async def test_a_job_whose_answer_was_lost_keeps_its_payload(
    app: Headrace, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(offload=shelf.offload)
    async def count(text: str) -> int:
        return len(text)

    session = await app.session()
    sent = session.sender.send

    async def lost(*args: object, **kwargs: object) -> object:
        await sent(*args, **kwargs)  # type: ignore[arg-type]
        raise EnqueueUnknown(["one"], "the answer was lost")

    monkeypatch.setattr(session.sender, "send", lost)
    with pytest.raises(EnqueueUnknown):
        await count.options(id="one").enqueue("a" * 2_000)
    monkeypatch.undo()
    async with app.worker():
        assert await app.job("one").result(timeout=20) == 2_000


def put(key: str, data: bytes) -> None: ...


def get(key: str) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((put, put), r"Offload\(\): get is called as get\(key\)"),
        ((get, get), r"Offload\(\): put is called as put\(key, data\)"),
        ((put, 5), r"Offload\(get=\) must be a function, not 5"),
    ],
)
def test_what_cannot_keep_payloads_is_refused(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Offload(*given)


def test_an_app_can_have_an_offload_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_OFFLOAD", "tests.tour.test_offload:OFFLOAD")
    assert Headrace("memory://").payloads.offload is OFFLOAD
    monkeypatch.setenv("HEADRACE_OFFLOAD", "tests.tour.test_offload:put")
    with pytest.raises(ConfigError, match=r"offload must be an Offload\(put, get\), not <function"):
        Headrace("memory://")


OFFLOAD = Offload(put, get)
