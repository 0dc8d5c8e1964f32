"""Whatever lies in a store, the worker runs what lies beside it, and people see the rest."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import Headrace, Job, JobFailed
from headrace.cli import main
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.parcel import Parcel
from headrace.top.snapshot import SnapshotReader
from tests.admin.burying import bury, envelope
from tests.faults.crew import LONG, eventually
from tests.faults.odd_values import (
    CONSTRAINTS,
    GROUP,
    IN_SQLITE,
    ON_REDIS,
    QUEUE,
    TOPIC,
    OddRedis,
    OddSqlite,
    colliding,
)
from tests.faults.odd_values import envelope as odd_envelope
from tests.web.browsing import Person

CASES = [*(("redis", name) for name in ON_REDIS), *(("sqlite", name) for name in IN_SQLITE)]
PAGES = (
    "/",
    "/queues",
    f"/queue?name={QUEUE}",
    "/jobs",
    f"/jobs?queue={QUEUE}",
    "/dead",
    "/topics",
    f"/topic?name={TOPIC}",
    f"/group?topic={TOPIC}&group={GROUP}",
    "/workers",
    "/schedules",
    "/actions",
    "/metrics",
)
# What of a dead job cannot be told; the others lack nothing that people see.
UNREADABLE = {
    "reason not UTF-8",
    "reason that is bytes",
    "history",
    "history that is text",
    "envelope",
    "envelope that is text",
    "no field of ours",
    "a key alone",
    "an empty key",
}
COMMANDS = ("queues", "dead list", "jobs list", "workers", "schedules", "topics", "actions")


class Shop:
    """An app with a task, a topic and a group, and a store to plant odd values in."""

    def __init__(self, url: str, namespace: str, plant: Callable[[], None]) -> None:
        self.plant = plant
        self.app = Headrace(url, namespace=namespace, lease=5.0)

        @self.app.task(queue=QUEUE)
        async def send(text: str) -> str:
            return text

        self.send = send
        self.orders = self.app.topic(TOPIC, dict[str, int])

        @self.orders.subscribe(group=GROUP)
        async def bill(order: dict[str, int]) -> None: ...

    async def furnish(self) -> list[Job[str]]:
        """Jobs and events that are good, and one dead job."""
        await bury(self.app, [envelope("send", "good", id="good")], queue=QUEUE)
        await self.orders.publish({"number": 1})
        plain = await self.send.enqueue("plain")
        later = await self.send.options(delay=0.01).enqueue("later")
        keyed = [await self.send.options(key="a").enqueue(text) for text in ("one", "two")]
        return [plain, later, *keyed]


@asynccontextmanager
async def opened(kind: str, case: str, url: str, folder: Path, space: str) -> AsyncIterator[Shop]:
    path = str(folder / "jobs.db")

    def plant() -> None:
        if kind == "redis":
            odd = OddRedis(url, space)
            ON_REDIS[case](odd)
            odd.client.close()
        else:
            rows = OddSqlite(path, space)
            IN_SQLITE[case](rows)
            rows.connection.close()

    shop = Shop(url if kind == "redis" else f"sqlite:///{path}", space, plant)
    async with shop.app:
        yield shop


# Some by day; each value by `make chaos`.
SOME = CASES if os.environ.get("HEADRACE_CHAOS") else CASES[::8]


@pytest.mark.parametrize(("kind", "case"), SOME)
async def test_a_worker_runs_the_good_jobs_beside_it(
    kind: str, case: str, redis_url: str, tmp_path: Path, namespace: str
) -> None:
    async with opened(kind, case, redis_url, tmp_path, namespace) as shop:
        jobs = await shop.furnish()
        shop.plant()
        worker = shop.app.worker()
        async with worker:
            texts = [await job.result(LONG) for job in jobs]
            after = await shop.send.options(key="a", priority=3).enqueue("after")
            assert await after.result(LONG) == "after"
        assert texts == ["plain", "later", "one", "two"]
        assert worker.outcome is not None
        assert worker.outcome.crashes == 0


@pytest.mark.parametrize(("kind", "case"), SOME)
async def test_every_page_answers_and_shows_the_rest(
    kind: str, case: str, redis_url: str, tmp_path: Path, namespace: str
) -> None:
    async with opened(kind, case, redis_url, tmp_path, namespace) as shop:
        await shop.furnish()
        shop.plant()
        async with Person(shop.app) as person:
            pages = {path: await person.page(path) for path in PAGES}
        assert QUEUE in pages["/queues"]
        assert "good" in pages["/dead"]
        assert GROUP in pages[f"/topic?name={TOPIC}"]
        assert "good" in {info.id for info in await shop.app.admin.dead()}
        assert QUEUE in {
            row.info.name for row in (await SnapshotReader(shop.app.admin).read()).queues
        }
        events = [event async for event in shop.app.admin.events(QUEUE)]
        assert {"sent", "dead"} <= {event.kind for event in events}


@pytest.mark.parametrize(("kind", "case"), [each for each in CASES if each[1].startswith("dead")])
async def test_what_is_dead_beside_it_can_be_purged_and_so_can_it(
    kind: str, case: str, redis_url: str, tmp_path: Path, namespace: str
) -> None:
    async with opened(kind, case, redis_url, tmp_path, namespace) as shop:
        await shop.furnish()
        shop.plant()
        found = await shop.app.admin.dead(QUEUE)
        assert len(found) == 2
        odd = next(info for info in found if info.id != "good")
        async with Person(shop.app) as person:
            page = await person.page("/dead")
        assert ("unreadable: " in page) == bool(odd.unreadable)
        assert bool(odd.unreadable) == (case.split(": ")[1] in UNREADABLE)
        for info in found:
            assert await shop.app.admin.purge(info.id, QUEUE) == 1
        assert await shop.app.admin.dead(QUEUE) == []


@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)
async def test_odd_constraints_are_dead_with_their_bytes_and_the_batch_is_settled(
    constraints: bytes, redis_url: str, namespace: str
) -> None:
    """On Redis, where a script that fails half way is not undone."""
    app = Headrace(redis_url, namespace=namespace)
    release = asyncio.Event()

    @app.task(queue=QUEUE, concurrency=2)
    async def hold(number: int) -> int:
        await release.wait()
        return number

    async with app:
        odd = OddRedis(redis_url, namespace)
        store = (await app.session()).store
        jobs = [await hold.options(key=f"k{n % 3}").enqueue(n) for n in range(6)]
        jobs += [await hold.enqueue(n) for n in range(6, 12)]
        bytes_of_it = odd_envelope(task="hold", arguments=[1])
        odd.run("XADD", odd.keys.ready, "*", "j", bytes_of_it, "t", constraints)
        odd.client.close()
        async with app.worker():
            await asyncio.sleep(0)
            release.set()
            assert [await job.result(LONG) for job in jobs] == list(range(12))

            async def buried() -> bool:
                return bool((await store.dead(QUEUE)).jobs)

            await eventually("it is dead", buried)
        (dead,) = await app.admin.dead(QUEUE)
        assert (dead.reason, dead.envelope) == ("malformed", bytes_of_it)
        assert "constraints" in dead.error_text
        counts = await store.count(QUEUE)
        assert (counts.waiting, counts.running, counts.blocked) == (0, 0, 0)


@pytest.mark.parametrize("case", ["epoch", "levels", "queues: not UTF-8", "paused"])
async def test_what_is_passed_over_is_named_once_by_its_key(
    case: str, redis_url: str, tmp_path: Path, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="headrace.store")
    async with opened("redis", case, redis_url, tmp_path, namespace) as shop:
        await shop.furnish()
        shop.plant()
        async with shop.app.worker():
            for _ in range(3):
                await shop.app.admin.queues()
            job = await shop.send.enqueue("after")
            await job.result(LONG)
        for _ in range(3):
            await shop.app.admin.queues()
    said = [record.getMessage() for record in caplog.records if "passed over" in record.message]
    assert len(said) == 1
    assert namespace in said[0]
    assert case.split(":")[0] in said[0]


@pytest.mark.settles_fail
async def test_an_outcome_that_the_store_refuses_hurts_no_other(
    tmp_path: Path, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Someone put a trigger on the table."""
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db", namespace=namespace)
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task(queue=QUEUE)
    async def hold(number: int) -> int:
        begun.set()
        await release.wait()
        return number

    async with app:
        jobs = [await hold.options(id=f"job-{number}").enqueue(number) for number in range(9)]
        odd = OddSqlite(str(tmp_path / "jobs.db"), namespace)
        odd.run(
            "CREATE TRIGGER odd BEFORE DELETE ON jobs WHEN OLD.job_id = CAST('=job-4' AS BLOB)"
            " AND OLD.state = 'running' BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
        odd.connection.close()
        async with app.worker():
            await begun.wait()
            release.set()
            with pytest.raises(JobFailed, match="not this one"):
                await jobs.pop(4).result(LONG)
            assert [await job.result(LONG) for job in jobs] == [0, 1, 2, 3, 5, 6, 7, 8]
        (dead,) = await app.admin.dead(QUEUE)
        assert (dead.id, dead.reason, dead.arguments) == ("job-4", "malformed", {"number": 4})
    assert "job-4" in caplog.text


@pytest.mark.parametrize(("kind", "case"), [*CASES[::7], ("redis", "dead: reason not UTF-8")])
def test_every_command_shows_the_rest(
    kind: str, case: str, redis_url: str, tmp_path: Path, namespace: str
) -> None:
    async def prepare() -> str:
        async with opened(kind, case, redis_url, tmp_path, namespace) as shop:
            await shop.furnish()
            shop.plant()
            return shop.app.url

    env = {"HEADRACE_URL": asyncio.run(prepare()), "HEADRACE_NAMESPACE": namespace}
    for command in COMMANDS:
        for more in ((), ("--json",)):
            result = CliRunner(env=env).invoke(main, [*command.split(), *more])
            assert result.exit_code == 0, (command, result.output)
            if command == "dead list":
                assert "good" in result.output


async def test_arguments_whose_keys_collide_are_dead_and_block_nobody(app: Headrace) -> None:
    """As they would be decoded, the worker and every page would stand still for ten seconds."""

    @app.task
    async def take(data: Any) -> int:
        return len(data)

    store = (await app.session()).store
    job_id = ids.new_id()
    await store.append("default", [Parcel(job_id, encode_envelope(job_id, "take", colliding()))])
    good = await take.enqueue({(x, -1): x for x in range(500)})
    async with app.worker():
        assert await good.result(LONG) == 500

        async def buried() -> bool:
            return bool((await store.dead("default")).jobs)

        await eventually("it is dead", buried)
    (dead,) = await app.admin.dead("default")
    assert (dead.reason, dead.arguments) == ("bad_arguments", None)
    assert "same hash" in dead.error_text
