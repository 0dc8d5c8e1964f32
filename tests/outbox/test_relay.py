"""The relay sends each row once, in order, whoever else runs and whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from headrace import ConfigError, Headrace, Retry, StoreUnavailable
from headrace.core.job.parcel import Parcel
from headrace.errors import StoreMismatch
from headrace.outbox import Outbox, Relay
from tests.outbox.databases import arrived, connect, count, engine_url, transaction, until
from tests.servers import RedisServer


@pytest.fixture
def outbox(app: Headrace, database: str) -> Outbox:
    outbox = Outbox(app)
    with transaction(database) as connection:
        outbox.create(connection)
    return outbox


# Where the store makes no difference.
only_memory = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


def written(outbox: Outbox, database: str, *queues: str) -> list[str]:
    """The ids of jobs written in one transaction, one for each of these queues."""
    task = outbox.app.tasks.get("work") or outbox.app.task(name="work")(_work)
    with transaction(database) as connection:
        calls = [task.options(queue=queue).call() for queue in queues]
        return [outbox.enqueue(connection, call).id for call in calls]


@asynccontextmanager
async def relay_of(outbox: Outbox, database: object, **options: Any) -> AsyncIterator[Relay]:
    """A relay whose steps the test takes."""
    relay = outbox.relay(database, **options)
    yield relay
    await relay.close()


async def all_sent(database: str) -> None:
    await until(lambda: not count(database))


def refuse(relay: Relay, monkeypatch: pytest.MonkeyPatch, unwanted: str, error: Exception) -> None:
    """Have the store say no to any batch that holds this job."""
    store = relay._app.store
    append = store.append

    async def picky(queue: str, parcels: Sequence[Parcel], **options: Any) -> object:
        if any(parcel.job_id.hex() == unwanted.replace("-", "") for parcel in parcels):
            raise error
        return await append(queue, parcels, **options)

    monkeypatch.setattr(store, "append", picky)


async def test_rows_of_a_destination_keep_their_order(outbox: Outbox, database: str) -> None:
    queues = ["mail", "default"] * 300
    ids = written(outbox, database, *queues)
    async with relay_of(outbox, database) as relay:
        assert [await relay.step(), await relay.step(), await relay.step()] == [500, 100, 0]
    assert await arrived(outbox.app, "mail") == ids[0::2]
    assert await arrived(outbox.app, "default") == ids[1::2]


async def test_jobs_of_an_outbox_gather_with_others(outbox: Outbox, database: str) -> None:
    app = outbox.app

    @app.task(batch=3, batch_key=lambda item: item[0], max_wait=3600)
    async def digest(items: list[str]) -> None: ...

    with transaction(database) as connection:
        for item in ("a1", "b1", "a2"):
            outbox.enqueue(connection, digest.call(item))
    await digest.enqueue("a3")
    async with relay_of(outbox, database) as relay:
        assert await relay.step() == 3
    waiting = (await app.admin.jobs(state="waiting")).jobs
    (left,) = (await app.admin.jobs(state="blocked")).jobs
    assert sorted(job.arguments["items"] for job in waiting) == ["a1", "a2", "a3"]
    assert left.waits_for == "batch:digest:b"


async def test_a_relay_may_run_beside_other_code(outbox: Outbox, database: str) -> None:
    async with outbox.relay(database):
        ids = written(outbox, database, "mail")
        await all_sent(database)
        ids += written(outbox, database, "mail", "mail")
        await all_sent(database)
    assert await arrived(outbox.app, "mail") == ids


@only_memory
async def test_a_relay_takes_an_engine_a_url_or_a_function(
    outbox: Outbox, database: str, engine: sa.Engine
) -> None:
    ids = []
    for given in (engine, database, lambda: connect(database), f"{engine.url}"):
        ids += written(outbox, database, "mail")
        async with relay_of(outbox, given) as relay:
            assert await relay.step() == 1
    assert await arrived(outbox.app, "mail") == ids


@only_memory
async def test_several_relays_send_each_row_once_and_in_order(
    outbox: Outbox, database: str
) -> None:
    sent = _times_sent(outbox)
    relays = [outbox.relay(database, poll=0.05) for _ in range(4)]
    running = [asyncio.create_task(relay.run()) for relay in relays]
    ids = []
    for _ in range(20):
        ids += written(outbox, database, *["mail"] * 25, "default")
    await all_sent(database)
    for relay in relays:
        relay.stop()
    await asyncio.gather(*running)
    mail = [one for number, one in enumerate(ids) if number % 26 != 25]
    assert await arrived(outbox.app, "mail") == mail
    assert len(sent) == len(set(sent)) == 520


async def test_what_another_relay_has_is_left_alone_until_its_lease_is_over(
    outbox: Outbox, database: str
) -> None:
    first, second = written(outbox, database, "mail", "default")
    async with relay_of(outbox, database, lease=60.0) as other, relay_of(outbox, database) as relay:
        # As if it had died with a row of this destination in its hands.
        await other._database.run(lambda c: other._pending.take(c, ["default"]))
        later = written(outbox, database, "mail")
        assert await relay.step() == 1
        assert await arrived(outbox.app, "default") == [second]
        with transaction(database) as connection:
            connection.execute(
                "UPDATE headrace_outbox SET locked_until_ms = 1 WHERE locked_by <> ''"
            )
        assert await relay.step() == 2
    assert await arrived(outbox.app, "mail") == [first, *later]


async def test_a_row_that_is_refused_keeps_no_other_back(
    outbox: Outbox, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(outbox, database, *["mail"] * 5)
    async with relay_of(outbox, database, retry=Retry(3, backoff=[0], jitter=False)) as relay:
        refuse(relay, monkeypatch, ids[2], StoreMismatch("a key of the wrong type"))
        assert await relay.step() == 4
        assert count(database) == 1
        with transaction(database) as connection:
            assert outbox.failed(connection) == []
        assert [await relay.step(), await relay.step(), await relay.step()] == [0, 0, 0]
        with transaction(database) as connection:
            (row,) = outbox.failed(connection)
        assert (row.id, row.destination, row.attempts) == (ids[2], "mail", 3)
        assert row.error == "StoreMismatch: a key of the wrong type"
        monkeypatch.undo()
        assert await relay.step() == 0
        with transaction(database) as connection:
            assert outbox.retry_failed(connection, "another") == 0
            assert outbox.retry_failed(connection, row.id) == 1
        assert await relay.step() == 1
    assert await arrived(outbox.app, "mail") == [*ids[:2], *ids[3:], ids[2]]


@only_memory
async def test_a_row_that_cannot_be_read_is_given_up(outbox: Outbox, database: str) -> None:
    broken, newer, sound = written(outbox, database, *["mail"] * 3)
    with transaction(database) as connection:
        one = "UPDATE headrace_outbox SET parcel = {} WHERE id = '{}'"
        if database.startswith("sqlite"):
            connection.execute(one.format("X'00'", broken))
            connection.execute(one.format("X'9702A1'", newer))
        else:
            connection.execute(one.format(r"'\x00'", broken))
            connection.execute(one.format(r"'\x9602c400c400c0c0c400'", newer))
    async with relay_of(outbox, database, retry=Retry(1)) as relay:
        assert await relay.step() == 1
    with transaction(database) as connection:
        assert [row.id for row in outbox.failed(connection)] == [broken, newer]
        assert all("Unreadable" in row.error for row in outbox.failed(connection))
    assert await arrived(outbox.app, "mail") == [sound]


@only_memory
async def test_a_store_that_is_away_is_waited_for_and_others_go_on(
    outbox: Outbox, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = written(outbox, database, "mail", "default", "mail")
    async with relay_of(outbox, database, retry=Retry(1)) as relay:
        refuse(relay, monkeypatch, ids[0], StoreUnavailable("away"))
        assert await relay.step() == 1
        # Not even what could be sent alone: it would be out of order.
        ids += written(outbox, database, "mail")
        assert await relay.step() == 0
        monkeypatch.undo()
        async with asyncio.timeout(30):
            while count(database):
                await relay.step()
                await asyncio.sleep(0.01)
    assert await arrived(outbox.app, "mail") == [ids[0], ids[2], ids[3]]
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == [
        "the outbox holds back rows for 'mail': away",
        "the outbox sends to 'mail' again",
    ]


async def test_a_redis_that_restarts_is_waited_for(
    redis_server: RedisServer, database: str, namespace: str
) -> None:
    async with Headrace(redis_server.url, namespace=namespace) as app:
        outbox = Outbox(app)
        with transaction(database) as connection:
            outbox.create(connection)
        async with outbox.relay(database):
            redis_server.stop()
            ids = written(outbox, database, "mail", "mail")
            redis_server.start()
            await all_sent(database)
        assert await arrived(app, "mail") == ids


async def test_a_store_that_is_away_at_the_start_is_waited_for(
    redis_server: RedisServer, postgres: str, namespace: str
) -> None:
    redis_server.stop()
    app = Headrace(redis_server.url, namespace=namespace)
    outbox = Outbox(app)
    with transaction(postgres) as connection:
        outbox.create(connection)
    ids = written(outbox, postgres, "mail")
    async with outbox.relay(postgres):
        redis_server.start()
        await all_sent(postgres)
    async with app:
        assert await arrived(app, "mail") == ids


@only_memory
async def test_a_database_that_is_not_ready_is_waited_for(
    app: Headrace, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(app, table="later")
    async with outbox.relay(database):
        await until(lambda: "later" in caplog.text)
        with transaction(database) as connection:
            outbox.create(connection)
            job = outbox.enqueue(connection, app.task(name="work")(_work).call())
        await until(lambda: not count(database, "later"))
    assert await arrived(app) == [job.id]


@only_memory
@pytest.mark.parametrize("through", ["url", "engine"])
async def test_a_commit_in_postgresql_wakes_the_relay(
    app: Headrace, postgres: str, through: str
) -> None:
    outbox = Outbox(app)
    with transaction(postgres) as connection:
        outbox.create(connection)
    engine = sa.create_engine(engine_url(postgres))
    # Without being woken it would look once in an hour.
    relay = outbox.relay(postgres if through == "url" else engine, poll=3600.0)
    async with relay:
        await until(lambda: relay._commits is not None and relay._pause > 1.0)
        ids = written(outbox, postgres, "mail")
        await all_sent(postgres)
        # One that is cut off is made anew.
        commits = relay._commits
        with transaction(postgres) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"
            )
        await until(lambda: relay._commits is not commits and relay._pause > 1.0)
        ids += written(outbox, postgres, "mail")
        await all_sent(postgres)
    engine.dispose()
    assert await arrived(app, "mail") == ids


@only_memory
def test_wrong_use_of_a_relay_is_refused(app: Headrace) -> None:
    outbox = Outbox(app)
    for given in (None, 7, "sqlite://", "sqlite:///:memory:", sa.MetaData()):
        with pytest.raises(ConfigError):
            outbox.relay(given)
    for options in ({"lease": 0}, {"poll": 0}, {"retry": 3}):
        with pytest.raises(ConfigError, match="relay"):
            outbox.relay("sqlite:///shop.db", **options)  # type: ignore[arg-type]


def _times_sent(outbox: Outbox) -> list[bytes]:
    """The keys of the jobs that reach the store, as often as they do."""
    store: Any = outbox.app.store
    append = store.append
    sent: list[bytes] = []

    async def noting(queue: str, parcels: Sequence[Parcel], **options: Any) -> object:
        sent.extend(parcel.job_id for parcel in parcels)
        return await append(queue, parcels, **options)

    store.append = noting
    return sent


async def _work() -> None:
    """A task."""


@only_memory
async def test_rows_wait_for_room_in_their_queue(outbox: Outbox, database: str) -> None:
    outbox.app.queue("mail", max_length=2)
    ids = written(outbox, database, *["mail"] * 5, "default")
    async with relay_of(outbox, database) as relay:
        assert await relay.step() == 3
        assert count(database) == 3
        waiting = await arrived(outbox.app, "mail")
        assert waiting == ids[:2]
        for id in waiting:
            await outbox.app.job(id).cancel()
        await until_sent(relay, 2)
        assert await arrived(outbox.app, "mail") == ids[2:4]


async def until_sent(relay: Relay, rows: int) -> None:
    while rows > 0:
        rows -= await relay.step()
        await asyncio.sleep(0.01)
