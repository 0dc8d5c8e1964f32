"""Entries that are not jobs, or not such as this worker can run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from headrace import Headrace
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.store.redis.keys import QueueKeys
from tests.faults.crew import LONG, Crew, eventually

LIMIT = 1000
pack = msgspec.msgpack.encode


@pytest.fixture
async def app(redis_url: str, namespace: str) -> AsyncIterator[Headrace]:
    app = Headrace(redis_url, namespace=namespace, max_payload=LIMIT, unknown_task_after=0)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        yield app


def job(task: str = "double", arguments: Any = ([1], {})) -> bytes:
    return encode_envelope(ids.new_id(), task, pack(arguments))


# What is in the entry, why it is dead, and the bytes that are kept of it.
_BROKEN: dict[str, tuple[list[bytes], str]] = {
    "other fields": ([b"order", b"7", b"total", b"9.95"], "malformed"),
    "no bytes": ([b"j", b""], "malformed"),
    "garbage": ([b"j", bytes(range(256))], "malformed"),
    "text": ([b"j", b'{"task": "double"}'], "malformed"),
    "half an envelope": ([b"j", job()[:20]], "malformed"),
    "endless nesting": ([b"j", b"\x91" * 900], "malformed"),
    "format 0": ([b"j", pack([0, ids.new_id(), "double", b""])], "malformed"),
    "format 99": ([b"j", pack([99, ids.new_id(), {"new": "shape"}])], "newer_format"),
    "format 300": ([b"j", pack([300, ids.new_id(), {"new": "shape"}])], "newer_format"),
    "unknown task": ([b"j", job("nowhere")], "unknown_task"),
    "wrong argument": ([b"j", job(arguments=(["one"], {}))], "bad_arguments"),
    "too many arguments": ([b"j", job(arguments=([1, 2, 3], {}))], "bad_arguments"),
    "no arguments": ([b"j", encode_envelope(ids.new_id(), "double", b"")], "bad_arguments"),
    "too large": ([b"j", job(arguments=([1], {"x": "x" * 100_000}))], "oversize"),
    "a broken history": ([b"j", job("nowhere"), b"h", b"\xc1garbage"], "unknown_task"),
}


@pytest.mark.parametrize("kind", _BROKEN)
async def test_what_cannot_be_run_is_dead_with_its_bytes(
    app: Headrace, redis_url: str, namespace: str, kind: str
) -> None:
    fields, reason = _BROKEN[kind]
    ready = QueueKeys(namespace, "default").ready
    store = (await app.session()).store
    async with app.worker():
        with redis.Redis.from_url(redis_url) as client:
            client.execute_command("XADD", ready, "*", *fields)
        job = await app.tasks["double"].enqueue(21)
        assert await job.result(LONG) == 42

        async def buried() -> bool:
            return bool((await store.dead("default")).jobs)

        await eventually("it is dead", buried)
    (dead,) = (await store.dead("default")).jobs
    assert dead.reason == reason
    assert dead.envelope == (fields[1] if fields[0] == b"j" else pack(fields))
    (info,) = await app.admin.dead("default")
    assert info.reason == reason
    counts = await store.count("default")
    assert (counts.waiting, counts.running, counts.scheduled) == (0, 0, 0)


async def test_many_small_maps_take_no_memory(
    redis_url: str, namespace: str, tmp_path: Path
) -> None:
    """Twelve million empty maps would be nearly a gigabyte, if anyone made them."""
    count = 12_000_000
    maps = b"\xdd" + count.to_bytes(4, "big") + b"\x80" * count
    bomb = b"\x94" + pack(1) + pack(ids.new_id()) + pack("work") + maps
    async with Crew(tmp_path, redis_url, namespace) as crew:
        worker = crew.start()
        await worker.works()
        with redis.Redis.from_url(redis_url) as client:
            ready = QueueKeys(namespace, "default").ready
            client.execute_command("XADD", ready, "*", "j", bomb)

        async def buried() -> bool:
            return bool(await crew.dead())

        await eventually("it is dead", buried)
        assert list((await crew.dead()).values()) == ["oversize"]
        job = await crew.app.tasks["work"].enqueue(0.0)
        await job.result(LONG)
        assert worker.peak_mib < 300


@pytest.mark.parametrize("format", [99, 300])
async def test_a_job_of_a_newer_format_waits_for_a_newer_worker(
    redis_url: str, namespace: str, format: int
) -> None:
    app = Headrace(redis_url, namespace=namespace)
    envelope = pack([format, b"=later", {"new": "shape"}])

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async def put_off() -> bool:
        return (await app.store.count("default")).scheduled == 1

    async with app:
        async with app.worker():
            with redis.Redis.from_url(redis_url) as client:
                ready = QueueKeys(namespace, "default").ready
                client.execute_command("XADD", ready, "*", "j", envelope)
            assert await (await double.enqueue(21)).result(LONG) == 42
            await eventually("it goes back for others", put_off)
        info = await app.job("later").info()
        assert info.state in ("scheduled", "waiting")
        assert info.attempts == ()
        assert "It waits for a worker that" in await app.admin.why("later")
