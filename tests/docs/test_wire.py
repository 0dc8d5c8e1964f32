"""What docs/wire.md says: its examples are what this version writes and reads, and a producer that
was written from it alone can send jobs and events."""

from __future__ import annotations

import ast
import asyncio
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.docs import foreign_producer as foreign
from tests.worker.states import until

from headrace import Headrace, State
from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.constraints import Constraints, encode_constraints
from headrace.core.job.envelope import NO_OVERRIDES, Overrides, decode_envelope, encode_envelope
from headrace.core.job.verdict import Verdict, decode_verdict, done_verdict, encode_verdict
from headrace.core.payload.packing import unpack, unpacked
from headrace.core.queue_names import log_name, shard_of
from headrace.store.redis.keys import QueueKeys, queues_key

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "wire" / "vectors.json").read_text()
)
EACH = {kind: [pytest.param(each, id=each["name"]) for each in VECTORS[kind]] for kind in VECTORS}
Producer = foreign.RedisProducer | foreign.SqliteProducer


def encoded(value: Any, content_type: str) -> bytes:
    if content_type == "application/json":
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return codec.encode(value)


def payload_of(vector: dict[str, Any]) -> bytes:
    payload = encoded(vector["value"], vector["overrides"].get("m", ""))
    return zlib.compress(payload, 6) if "p" in vector["overrides"] else payload


@pytest.mark.parametrize("vector", [*EACH["jobs"], *EACH["events"]])
def test_envelopes_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    data, id = bytes.fromhex(vector["envelope"]), ids.to_id(vector["id"])
    given = vector["overrides"]
    overrides = msgspec.convert(given, Overrides) if given else NO_OVERRIDES
    envelope = decode_envelope(data)
    assert (envelope.job_id, envelope.task) == (id, vector["task"])
    assert (envelope.overrides, envelope.runner) == (overrides, vector.get("runner", "loop"))
    assert unpacked(envelope, 10**6).payload == encoded(vector["value"], overrides.content)
    if "p" not in vector["overrides"]:
        runner = vector.get("runner", "loop")
        made = encode_envelope(id, vector["task"], payload_of(vector), overrides, runner)
        # Some forms are longer than they need be; a reader takes all.
        assert msgspec.msgpack.decode(made) == msgspec.msgpack.decode(data)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(each, id=each["name"])
        for each in [*VECTORS["jobs"], *VECTORS["events"]]
        if "runner" not in each
    ],
)
def test_what_others_write_from_the_page_are_the_same_bytes(vector: dict[str, Any]) -> None:
    overrides = vector["overrides"]
    if overrides.get("m") == "application/json":
        payload = encoded(vector["value"], "application/json")
    else:
        payload = foreign.pack(vector["value"])
    if "p" in overrides:
        payload = decode_envelope(bytes.fromhex(vector["envelope"])).payload
    made = foreign.envelope(vector["id"], vector["task"], payload, overrides)
    assert made.hex() == vector["envelope"]


@pytest.mark.parametrize("vector", EACH["results"])
def test_results_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["verdict"])
    read = decode_verdict(data)
    assert (read.state, read.reason, read.error_type) == (
        vector["state"], vector.get("reason", ""), vector.get("error_type", ""),
    )  # fmt: skip
    if read.state is State.DONE:
        value = unpack(read.value, read.packing, 10**6)
        assert value == encoded(vector["value"], read.content)
        assert done_verdict(read.value, read.content, read.packing) == data
    elif read.state is State.DEAD:
        assert encode_verdict(Verdict(*msgspec.structs.astuple(read))) == data


@pytest.mark.parametrize("vector", EACH["keys"])
def test_keys_are_named_as_the_vectors_say(vector: dict[str, Any]) -> None:
    id = ids.to_id(vector["id"])
    keys = QueueKeys(vector["namespace"], vector["queue"])
    theirs = foreign.RedisKeys(vector["namespace"], vector["queue"], foreign.id_bytes(vector["id"]))
    ours = (keys.ready.encode(), keys.bucket_of(id), keys.result.encode() + id)
    assert ours == (theirs.ready, theirs.index, theirs.result)
    assert [each.hex() for each in ours] == [vector[name] for name in ("ready", "jobs", "result")]
    assert queues_key(vector["namespace"]).encode() == theirs.queues


@pytest.mark.parametrize("vector", EACH["shards"])
def test_events_of_a_key_are_where_the_vectors_say(vector: dict[str, Any]) -> None:
    key, shards = vector["key"], vector["shards"]
    assert shard_of(key, shards) == vector["shard"] == foreign.shard_of(key, shards)
    assert log_name("orders", vector["shard"]) == vector["log"]
    assert foreign.log_of("orders", vector["shard"]) == vector["log"]
    constraints = encode_constraints(Constraints(0, key))
    assert constraints.hex() == vector["constraints"] == foreign.pack({"k": key}).hex()


def test_the_example_on_the_page_is_a_job() -> None:
    (shown,) = (each for each in VECTORS["jobs"] if each["id"] == "order-1")
    _, _, block = foreign.PAGE.partition("with the id `order-1`:\n\n```text\n")
    lines = block.partition("```")[0].splitlines()
    assert "".join(line[:39].replace(" ", "") for line in lines) == shown["envelope"]


def test_the_producer_knows_nothing_of_the_package() -> None:
    tree = ast.parse(Path(foreign.__file__).read_text())
    modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert modules
    assert not [name for name in modules if str(name).startswith("headrace")]


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    url: str = request.getfixturevalue("redis_url")
    return url


@pytest.fixture
def producer(app: Headrace, store_url: str, namespace: str) -> Iterator[Producer]:
    if store_url.startswith("sqlite"):
        made: Producer = foreign.SqliteProducer(store_url.removeprefix("sqlite:///"), namespace)
    else:
        made = foreign.RedisProducer(store_url, namespace)
    yield made
    made.close()


async def test_a_job_of_another_language_runs_once(app: Headrace, producer: Producer) -> None:
    ran: list[int] = []

    @app.task
    def add(a: int, b: int = 10) -> int:
        ran.append(a)
        return a + b

    job = app.job("order-1")
    data = foreign.envelope("order-1", "add", foreign.pack([2, 3]), {"h": {"from": "go"}})
    assert await asyncio.to_thread(producer.send, "default", "order-1", data)
    assert not await asyncio.to_thread(producer.send, "default", "order-1", data)
    assert await job.status() is State.WAITING
    as_json = foreign.envelope("order-2", "add", b"[5]", {"m": "application/json"})
    assert await asyncio.to_thread(producer.send, "default", "order-2", as_json)
    async with app.worker():
        assert await job.result(timeout=20) == 5
        assert await app.job("order-2").result(timeout=20) == 15
    verdict = await asyncio.to_thread(producer.result, "default", "order-1")
    assert verdict == foreign.pack(["done", foreign.pack(5)])
    if isinstance(producer, foreign.RedisProducer):
        # On SQLite a repeat is known while the job lives; what has ended is in `results`.
        assert not await asyncio.to_thread(producer.send, "default", "order-1", data)
    assert ran == [2, 5]


async def test_a_waiting_job_of_another_language_can_be_cancelled(
    app: Headrace, producer: Producer
) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    data = foreign.envelope("late", "add", foreign.pack([1]), {})
    await asyncio.to_thread(producer.send, "default", "late", data)
    assert await app.job("late").cancel()
    assert await app.job("late").status() is State.CANCELLED


async def test_an_event_of_another_language_is_handled_in_order(
    app: Headrace, producer: Producer
) -> None:
    got: list[tuple[str, str | None]] = []
    orders = app.topic("orders", dict[str, int], shards=3, key=lambda event: str(event["n"]))

    @orders.subscribe("billing", ordered=True, begin="start")
    async def bill(event: dict[str, int]) -> None:
        got.append((str(event["n"]), None))

    for n in range(4):
        key = f"customer-{n % 2}"
        log = foreign.log_of("orders", foreign.shard_of(key, 3))
        data = foreign.envelope(f"e-{n}", "@orders", foreign.pack({"n": n}), {"k": key})
        assert await asyncio.to_thread(producer.send, log, f"e-{n}", data, key)
        assert not await asyncio.to_thread(producer.send, log, f"e-{n}", data, key)
    read = await orders.read()
    assert sorted((event.id, event.key, event.data["n"]) for event in read) == [
        (f"e-{n}", f"customer-{n % 2}", n) for n in range(4)
    ]
    async with app.worker():
        await until(lambda: len(got) == 4)
        own = [int(n) for n, _ in got]
        assert [n for n in own if n % 2] == [1, 3]
        assert [n for n in own if not n % 2] == [0, 2]
        # What Headrace itself publishes comes behind it.
        await orders.publish({"n": 9})
        await until(lambda: len(got) == 5)


async def test_a_plain_entry_is_a_job_too(redis_url: str, namespace: str) -> None:
    ran: list[int] = []
    app = Headrace(redis_url, namespace=namespace)

    @app.task
    async def add(a: int) -> None:
        ran.append(a)

    producer = foreign.RedisProducer(redis_url, namespace)
    data = foreign.envelope("plain", "add", foreign.pack([7]), {})
    await asyncio.to_thread(producer.send_plainly, "default", "plain", data)
    producer.close()
    async with app:
        async with app.worker():
            await until(lambda: ran == [7])
        assert await app.job("plain").status() is State.DONE
