"""A Redis that is flushed, cut off, filled, restarted or put to sleep while a worker runs.

Each fault is named in the log, in a few lines and not in hundreds; the worker goes on by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace import (
    Context,
    Headrace,
    Job,
    JobNotFound,
    Retry,
    State,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
)
from headrace.core.job import ids
from headrace.store.contract import StoreConsumer
from headrace.store.redis.keys import QueueKeys
from tests.faults.crew import LONG, Crew, eventually
from tests.faults.scenarios import Outages, survive_outages
from tests.servers import RedisServer, free_port

LEASE = 2.0


class Bench:
    """An app with a worker in this process, on a server that a test may break."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        self.server = server
        self.keys = QueueKeys(namespace, "default")
        self.runs: dict[int, int] = {}
        self.gate = asyncio.Event()
        self.app = app = Headrace(server.url, namespace=namespace, lease=LEASE)

        @app.task
        async def quick(number: int) -> int:
            self.runs[number] = self.runs.get(number, 0) + 1
            return number

        @app.task
        async def held(number: int) -> int:
            self.runs[number] = self.runs.get(number, 0) + 1
            await self.gate.wait()
            return number

        @app.task(retry=Retry(2, backoff=[0.05], jitter=False))
        async def flaky(number: int) -> int:
            self.runs[number] = self.runs.get(number, 0) + 1
            await self.gate.wait()
            if self.runs[number] == 1:
                raise ConnectionError("not yet")
            return number

        @app.task(retry=Retry(1))
        async def hopeless(number: int) -> int:
            self.runs[number] = self.runs.get(number, 0) + 1
            await self.gate.wait()
            raise ValueError("never")

        self.quick, self.held, self.flaky, self.hopeless = quick, held, flaky, hopeless

    async def hold(self, count: int) -> list[Job[int]]:
        """Jobs that are running and wait for the gate."""
        jobs = [await self.held.enqueue(number) for number in range(count)]
        await eventually("the jobs run", lambda: len(self.runs) == count)
        return jobs

    async def hold_in_one_bucket(self, count: int) -> tuple[list[Job[int]], bytes]:
        """The same, and the key of the bucket in which all of them are."""
        ids.change_bucket()
        jobs = await self.hold(count)
        (bucket,) = {self.keys.bucket_of(ids.to_id(job.id)) for job in jobs}
        return jobs, bucket

    async def goes_on(self) -> None:
        """A job sent now is run, by the worker that was there all the time."""
        assert await (await self.quick.enqueue(-1)).result(LONG) == -1

    def call(self, *command: Any) -> Any:
        with redis.Redis.from_url(self.server.url) as client:
            return client.execute_command(*command)

    def cut_all(self) -> None:
        self.call("CLIENT", "KILL", "TYPE", "pubsub")
        self.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.fixture
async def bench(durable_redis: RedisServer, namespace: str) -> AsyncIterator[Bench]:
    bench = Bench(durable_redis, namespace)
    async with bench.app, bench.app.worker(drain=5):
        await bench.goes_on()
        bench.runs.clear()
        yield bench
        # Else the worker would wait for what a failed test left running.
        bench.gate.set()


def warnings(caplog: pytest.LogCaptureFixture, text: str = "") -> list[str]:
    """What the log says at warning level or above, of this text."""
    said = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    return [message for message in said if text in message]


async def test_script_flush_is_not_noticed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    jobs = await bench.hold(3)
    bench.call("SCRIPT", "FLUSH")
    bench.gate.set()
    assert [await job.result(LONG) for job in jobs] == [0, 1, 2]
    await bench.goes_on()
    assert warnings(caplog) == []


async def test_flushall_is_named_and_work_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.hold(3)
    bench.call("FLUSHALL")
    bench.gate.set()
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    assert "default" in await (await bench.app.session()).store.queues()
    assert 1 <= len(warnings(caplog)) <= 8


async def test_an_idle_worker_names_a_flushall_too(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.call("FLUSHALL")
    await bench.goes_on()
    assert 1 <= len(warnings(caplog)) <= 4


@pytest.mark.settles_fail
async def test_a_deleted_stream_is_named_and_work_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.hold(3)
    bench.call("DEL", bench.keys.ready)
    bench.gate.set()
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    assert 1 <= len(warnings(caplog)) <= 8


async def test_jobs_outlive_the_consumer_group(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = await bench.hold(3)
    bench.call("XGROUP", "DESTROY", bench.keys.ready, "workers")
    more = [await bench.held.enqueue(number) for number in range(3, 6)]
    bench.gate.set()
    assert [await job.result(LONG) for job in jobs + more] == [0, 1, 2, 3, 4, 5]
    await bench.goes_on()
    counts = await (await bench.app.session()).store.count("default")
    assert (counts.waiting, counts.running, counts.dead) == (0, 0, 0)
    assert 1 <= len(warnings(caplog)) <= 8


async def test_cut_connections_are_made_anew(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = []
    for number in range(60):
        if number % 10 == 0:
            bench.cut_all()
        jobs.append(await bench.quick.enqueue(number))
    assert [await job.result(LONG) for job in jobs] == list(range(60))
    assert set(bench.runs.values()) == {1}
    assert 1 <= len(warnings(caplog)) <= 6 * 6
    assert warnings(caplog, "Redis cannot be reached")


async def test_a_delayed_job_is_on_time_after_signals_were_cut(bench: Bench) -> None:
    bench.call("CLIENT", "KILL", "TYPE", "pubsub")
    job = await bench.quick.options(delay=0.1).enqueue(7)
    assert await job.result(LONG) == 7


async def test_a_restarted_server_finds_its_worker_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = await bench.hold(3)
    bench.server.stop()
    bench.gate.set()
    # For longer than a lease: the jobs end meanwhile, their outcomes have to wait.
    await asyncio.sleep(1.5 * LEASE)
    await asyncio.to_thread(bench.server.start)
    assert [await job.result(LONG) for job in jobs] == [0, 1, 2]
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    assert 1 <= len(warnings(caplog, "the store does not answer")) <= 2, warnings(caplog)
    assert 1 <= len(warnings(caplog)) <= 8


async def test_a_paused_server_makes_no_job_run_twice(bench: Bench, namespace: str) -> None:
    other = Bench(bench.server, namespace)
    other.runs, other.gate = bench.runs, bench.gate
    async with other.app, other.app.worker(drain=5):
        jobs = await bench.hold(6)
        bench.server.pause()
        await asyncio.sleep(1.5 * LEASE)
        bench.server.resume()
        await bench.goes_on()
        # Long enough for whoever thought the jobs abandoned to have taken them.
        await asyncio.sleep(1.5 * LEASE)
        bench.gate.set()
        assert [await job.result(LONG) for job in jobs] == list(range(6))
    assert bench.runs == {**dict.fromkeys(range(6), 1), -1: 1}


async def test_a_full_server_lets_running_jobs_finish(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = await bench.hold(3)
    retried = await bench.flaky.enqueue(10)
    given_up = await bench.hopeless.enqueue(11)
    await eventually("they run", lambda: {10, 11} <= set(bench.runs))
    bench.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreFull, match="maxmemory"):
        await bench.quick.enqueue(20)
    bench.gate.set()
    assert [await job.result(LONG) for job in jobs] == [0, 1, 2]
    assert await retried.result(LONG) == 10
    await eventually("it is dead", lambda: _is(given_up, State.DEAD))
    with pytest.raises(StoreFull):
        await bench.app.enqueue_many(bench.quick.call(number) for number in range(20, 25))
    bench.call("CONFIG", "SET", "maxmemory", "0")
    await bench.goes_on()
    assert 20 not in bench.runs
    # The worker's own record is all that may have had to wait.
    names = (retried.id, given_up.id, "the worker's record cannot be written")
    assert [line for line in warnings(caplog) if not any(name in line for name in names)] == []


async def test_a_full_server_notes_what_a_running_job_has_done_once(bench: Bench) -> None:
    effects: list[str] = []
    gate = asyncio.Event()

    @bench.app.task(queue="effects")
    async def pay(ctx: Context) -> None:
        await gate.wait()
        async with ctx.once("pay") as paying:
            if paying.first:
                effects.append("paid")

    job = await pay.enqueue()
    async with bench.app.worker(queues=["effects"]):
        await eventually("it runs", lambda: _is(job, State.RUNNING))
        bench.call("CONFIG", "SET", "maxmemory", "1")
        gate.set()
        await job.result(LONG)
        bench.call("CONFIG", "SET", "maxmemory", "0")
    assert effects == ["paid"]


async def _is(job: Job[Any], state: State) -> bool:
    """False too while the store cannot say."""
    try:
        return await job.status() is state
    except (JobNotFound, StoreError):
        return False


async def _are(jobs: list[Job[Any]], state: State) -> bool:
    return all([await _is(job, state) for job in jobs])


async def test_a_replica_is_waited_for(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    jobs = await bench.hold(3)
    bench.call("REPLICAOF", "127.0.0.1", str(free_port()))
    bench.gate.set()
    with pytest.raises(StoreUnavailable, match="replica"):
        await bench.quick.enqueue(20)
    await eventually("it is named", lambda: warnings(caplog, "the server is a replica now"))
    bench.call("REPLICAOF", "NO", "ONE")
    assert [await job.result(LONG) for job in jobs] == [0, 1, 2]
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    # Being made a master again, the server closes what it had blocked: a second trouble.
    assert len(warnings(caplog, "the store does not answer")) <= 2, warnings(caplog)


async def test_a_loading_server_is_waited_for(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that reads its data slowly, a key at a time, and says so to whoever asks."""
    jobs = await bench.hold(3)
    with redis.Redis.from_url(bench.server.url) as client, client.pipeline() as ballast:
        for number in range(5000):
            ballast.set(f"ballast-{number}", number)
        ballast.execute()
    bench.server.stop()
    bench.server._settings["key-load-delay"] = "400"
    starting = asyncio.create_task(asyncio.to_thread(bench.server.start))
    bench.gate.set()
    await eventually("it is named", lambda: warnings(caplog, "loading its data"))
    await starting
    assert [await job.result(LONG) for job in jobs] == [0, 1, 2]
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    # Each part of the worker names it when it meets it, however often that is.
    assert max(Counter(warnings(caplog, "loading its data")).values()) <= 2


@pytest.mark.settles_fail
async def test_a_key_of_the_wrong_type_is_named(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, key = await bench.hold(3), bench.keys.events
    bench.call("SET", key, "something else")
    with pytest.raises(StoreMismatch, match=key):
        await bench.quick.enqueue(20)
    bench.gate.set()
    await eventually("it is named", lambda: warnings(caplog, key))
    bench.call("DEL", key)
    await eventually("they are done", lambda: _are(jobs, State.DONE))
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, -1: 1}
    assert len(warnings(caplog, key)) <= 4


async def test_jobs_outlive_their_bucket_of_the_index(bench: Bench) -> None:
    jobs, bucket = await bench.hold_in_one_bucket(3)
    delayed = await bench.quick.options(delay=1).enqueue(4)
    assert bench.keys.bucket_of(ids.to_id(delayed.id)) == bucket
    bench.call("DEL", bucket)
    with pytest.raises(JobNotFound):
        await jobs[0].status()
    bench.gate.set()
    await eventually("they are done", lambda: _are([*jobs, delayed], State.DONE))
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 2: 1, 4: 1, -1: 1}
    await eventually("nothing is left", lambda: not bench.call("EXISTS", bucket))


async def test_a_bucket_of_another_type_is_replaced(bench: Bench) -> None:
    jobs, bucket = await bench.hold_in_one_bucket(2)
    retried = await bench.flaky.enqueue(10)
    given_up = await bench.hopeless.enqueue(11)
    delayed = await bench.quick.options(delay=0.5).enqueue(12)
    await eventually("they run", lambda: {10, 11} <= set(bench.runs))
    bench.call("SET", bucket, "something else")
    bench.gate.set()
    sent = [*jobs, retried, delayed]
    await eventually("they are done", lambda: _are(sent, State.DONE))
    await eventually("it is dead", lambda: _is(given_up, State.DEAD))
    await bench.goes_on()
    assert bench.runs == {0: 1, 1: 1, 10: 2, 11: 1, 12: 1, -1: 1}
    assert bench.call("TYPE", bucket) == b"hash"


@pytest.mark.settles_fail
@pytest.mark.parametrize("place", ["scheduled", "parked", "dead"])
async def test_a_wrong_key_where_a_job_should_go_loses_no_job(bench: Bench, place: str) -> None:
    """The job leaves its place only if it can enter the next."""
    retried = await bench.flaky.enqueue(10)
    given_up = await bench.hopeless.enqueue(11)
    await eventually("they run", lambda: {10, 11} <= set(bench.runs))
    key = getattr(bench.keys, place)
    # A queue that has had no delayed or dead job has no such key yet.
    bench.call("SET", key, "something else")
    bench.gate.set()
    await asyncio.sleep(0.5)
    bench.call("DEL", key)
    await eventually("it is done", lambda: _is(retried, State.DONE))
    await eventually("it is dead", lambda: _is(given_up, State.DEAD))
    assert (bench.runs[10], bench.runs[11]) == (2, 1)
    await bench.goes_on()


@pytest.mark.settles_fail
async def test_a_wrong_key_of_one_queue_does_not_stop_another(bench: Bench, namespace: str) -> None:
    runs: list[int] = []

    @bench.app.task(queue="spoiled")
    async def spoiled() -> None:
        runs.append(1)
        await bench.gate.wait()

    @bench.app.task(queue="sound")
    async def sound() -> str:
        return "fine"

    async with bench.app.worker(queues=["spoiled", "sound"], drain=1):
        job = await spoiled.enqueue()
        await eventually("it runs", lambda: runs)
        key = QueueKeys(namespace, "spoiled").events
        bench.call("SET", key, "something else")
        bench.gate.set()
        try:
            assert await (await sound.enqueue()).result(20) == "fine"
        finally:
            bench.call("DEL", key)
        await eventually("it is done", lambda: _is(job, State.DONE))


async def test_what_was_sent_outlives_every_outage(
    durable_redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    async with Crew(tmp_path, durable_redis.url, namespace, crash_limit=50) as crew:
        await survive_outages(crew, durable_redis, Outages())


async def test_a_worker_that_finds_no_server_says_where_it_looked(namespace: str) -> None:
    port = free_port()
    app = Headrace(f"redis://127.0.0.1:{port}/0", namespace=namespace)

    @app.task
    async def nothing() -> None: ...

    with pytest.raises(StoreUnavailable, match=str(port)):
        await app.worker(wait_for_store=0).run()
    with pytest.raises(StoreUnavailable):
        await nothing.enqueue()


async def test_many_consumers_look_for_abandoned_jobs_no_more_often_than_one(
    redis_server: RedisServer, namespace: str
) -> None:
    """By the server's own count: a look begins by asking who holds anything."""
    lease = 0.9
    interval = lease / 6

    async def looks_in_each_interval(count: int) -> float:
        app = Headrace(redis_server.url, namespace=f"{namespace}-{count}", lease=lease)
        async with app:
            store = app.store
            consumers = [store.consumer(f"c-{n}", ["default"], lease) for n in range(count)]
            for consumer in consumers:
                await consumer.fetch(1, 0)
            # Nothing is looked through for a lease after nobody looked.
            await _reclaim_for(1.5 * lease, consumers[:1])
            redis_server.call("CONFIG", "RESETSTAT")
            lasted = await _reclaim_for(6 * interval, consumers)
            asked = _calls(redis_server, "xinfo|consumers")
            for consumer in consumers:
                await consumer.close()
            # One more: of the first interval only the end may have been seen.
            return (asked - 1) / (lasted / interval)

    assert await looks_in_each_interval(1) <= 1
    # None at all, if the machine stood still for so long that holders get time to renew.
    assert await looks_in_each_interval(64) <= 1


async def _reclaim_for(seconds: float, consumers: Sequence[StoreConsumer]) -> float:
    """All of them look as often as they can. The seconds that it took."""
    began_at = time.monotonic()
    while time.monotonic() < began_at + seconds:
        for consumer in consumers:
            assert await consumer.reclaim("default", 10, last_chance=True) == []
        await asyncio.sleep(0.01)
    return time.monotonic() - began_at


def _calls(server: RedisServer, command: str) -> int:
    stats = server.call("INFO", "commandstats").decode()
    for line in stats.splitlines():
        if line.startswith(f"cmdstat_{command}:calls="):
            return int(line.split("=", 1)[1].split(",")[0])
    return 0
