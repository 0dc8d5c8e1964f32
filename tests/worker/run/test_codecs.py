"""Jobs by other codecs than MessagePack, and compressed, as a worker and people see them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace import ArgumentError, ConfigError, Headrace, JobFailed, Reject, Retry, State
from headrace.core.job import ids
from headrace.core.job.envelope import Overrides, encode_envelope
from headrace.core.job.parcel import Parcel
from tests.tour.test_payloads import Odd, Pickled
from tests.worker.states import reach

# At the top level, as tasks that another process must import have to be.
app = Headrace(
    "memory://", unknown_task_after=0, codec="json", compress="zlib", compress_threshold=1_000
)


@app.task(run_in="process", retry=Retry(1))
def doubled(texts: list[str], *, times: int = 2) -> list[str]:
    return texts * times


@app.task(run_in="process", retry=Retry(1), codec=Pickled())
def odder(value: Odd) -> Odd:
    return Odd(value.value + 1)


@app.task(retry=Retry(1))
async def picky(n: int, note: str = "") -> int:
    if n < 0:
        raise Reject("negative")
    return n


@pytest.fixture
async def opened() -> AsyncIterator[Headrace]:
    async with app:
        yield app


async def test_a_process_reads_and_answers_by_the_codec(opened: Headrace) -> None:
    async with opened.worker(processes=1):
        job = await doubled.enqueue(["a" * 2_000], times=3)
        assert await job.result(timeout=60) == ["a" * 2_000] * 3
        assert (await (await odder.enqueue(Odd(4))).result(timeout=60)).value == 5


async def test_a_dead_job_is_edited_whatever_its_codec_is(opened: Headrace) -> None:
    job = await picky.enqueue(-1, "x" * 5_000)
    async with opened.worker():
        with pytest.raises(JobFailed, match="negative"):
            await job.result(timeout=20)
        (dead,) = await opened.admin.dead("default")
        assert dead.arguments == {"n": -1, "note": "x" * 5_000}
        await opened.admin.replay([job.id], edit={"n": 7})
        assert await job.result(timeout=20) == 7
    assert (await job.info()).arguments == {"n": 7, "note": "x" * 5_000}


async def test_a_dead_job_of_ones_own_codec_is_not_edited(opened: Headrace) -> None:
    job = await odder.enqueue(Odd(1))
    assert (await job.info()).arguments is None
    async with opened.worker(processes=1):
        await job.result(timeout=60)
    store = (await opened.session()).store
    other = ids.new_id()
    envelope = encode_envelope(other, "picky", b"?", Overrides(content="application/x-pickled"))
    await store.append("default", [Parcel(other, envelope)])
    async with opened.worker():
        lost = opened.job(ids.to_text(other))
        with pytest.raises(JobFailed, match=r"come as 'application/x-pickled', which task 'picky'"):
            await lost.result(timeout=20)
    with pytest.raises(ConfigError, match="cannot be edited: its arguments are 'application/x-p"):
        await opened.admin.replay([lost.id], edit={"n": 1})
    await opened.admin.purge([lost.id])


async def test_a_worker_that_lacks_a_package_leaves_the_job_to_others(
    opened: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    note = opened.task(name="note", compress="zstd", compress_threshold=10)(picky.function)
    job = await note.enqueue(3, "x" * 100)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    async with opened.worker():
        await reach([job], State.SCHEDULED)
        seen = await job.info()
        assert (seen.attempt, seen.attempts) == (1, ())
        assert "is put off, its payload cannot be had: compression by 'zstd' needs" in caplog.text
        monkeypatch.undo()
        assert await job.result(timeout=20) == 3


async def test_schedules_and_middleware_know_the_codec(opened: Headrace) -> None:
    await opened.schedules.upsert("nightly", picky.call(5, "x" * 5_000), cron="0 3 * * *")
    job = await opened.schedules.run_now("nightly")
    async with opened.worker():
        assert await job.result(timeout=20) == 5
    await opened.schedules.remove("nightly")


def test_an_argument_that_is_no_json_is_named() -> None:
    with pytest.raises(ArgumentError, match="argument 'note' cannot travel"):
        picky.call(1, note=object())  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match=r"the arguments cannot travel: .*lambda"):
        odder.call(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"codec": "raw"}, "task 'f': codec 'raw' is for events"),
        ({"codec": "xml"}, "task 'f': there is no codec 'xml': use 'msgpack', 'json', or an obj"),
        ({"codec": 5}, "task 'f': a codec is a name, or an object with name, encode and decode"),
        ({"compress": "gzip"}, "task 'f': compress must be 'zstd' or 'zlib', not 'gzip'"),
    ],
)
def test_a_task_refuses_what_cannot_be(options: Any, says: str) -> None:
    async def f() -> None: ...

    with pytest.raises(ConfigError, match=says):
        Headrace("memory://").task(**options)(f)


def test_each_setting_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CODEC", "json")
    monkeypatch.setenv("HEADRACE_COMPRESS", "zlib")
    monkeypatch.setenv("HEADRACE_COMPRESS_THRESHOLD", "77")
    found = Headrace("memory://").payloads
    assert (found.codec, found.compress, found.compress_threshold) == ("json", "zlib", 77)
    assert Headrace("memory://", codec="msgpack").payloads.codec == "msgpack"
    assert Headrace("memory://").topic("logs", str).schema.codec.name == "json"
    monkeypatch.setenv("HEADRACE_CODEC", "tests.tour.test_payloads:Odd")
    with pytest.raises(ConfigError, match="a codec is a name, or an object"):
        Headrace("memory://")
    monkeypatch.setenv("HEADRACE_CODEC", "nowhere:codec")
    with pytest.raises(ConfigError, match="HEADRACE_CODEC='nowhere:codec' cannot be imported"):
        Headrace("memory://")
    monkeypatch.setenv("HEADRACE_CODEC", "")
    monkeypatch.setenv("HEADRACE_COMPRESS", "tar")
    with pytest.raises(ConfigError, match="compress must be 'zstd' or 'zlib', not 'tar'"):
        Headrace("memory://")
