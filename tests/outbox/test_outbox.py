"""What is written in a transaction is sent if it commits, and only then."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import psycopg.rows
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace import (
    Call,
    ConfigError,
    Context,
    Delivery,
    Headrace,
    Job,
    JobNotFound,
    Middleware,
    chain,
)
from headrace.middleware import Send
from headrace.outbox import Outbox
from tests.outbox.databases import arrived, connect, count, engine_url, transaction, until


@pytest.fixture
def outbox(app: Headrace, database: str) -> Outbox:
    outbox = Outbox(app)
    with transaction(database) as connection:
        outbox.create(connection)
    return outbox


@pytest.fixture
def greet(app: Headrace) -> Any:
    @app.task
    async def greet(ctx: Context, name: str) -> str:
        return f"{name} {ctx.headers.get('tenant', '')}".strip()

    return greet


async def relayed(outbox: Outbox, database: object) -> int:
    """How many rows a relay sends until there are none."""
    relay = outbox.relay(database)
    total = 0
    while sent := await relay.step():
        total += sent
    await relay.close()
    return total


async def test_a_job_is_sent_once_its_transaction_has_committed(
    outbox: Outbox, greet: Any, database: str
) -> None:
    connection = connect(database)
    job = outbox.enqueue(connection, greet.call("Ada"))
    assert await relayed(outbox, database) == 0
    with pytest.raises(JobNotFound):
        await job.status()
    connection.commit()
    connection.close()
    assert await relayed(outbox, database) == 1
    async with outbox.app.worker():
        assert await job.result(timeout=30) == "Ada"
    assert count(database) == 0


async def test_nothing_is_sent_after_a_rollback(outbox: Outbox, greet: Any, database: str) -> None:
    connection = connect(database)
    outbox.enqueue(connection, greet.call("Ada"))
    connection.rollback()
    connection.close()
    assert await relayed(outbox, database) == 0
    assert await arrived(outbox.app) == []


async def test_a_session_and_a_connection_of_sqlalchemy_will_do(
    outbox: Outbox, greet: Any, database: str, engine: sa.Engine
) -> None:
    with Session(engine) as session, session.begin():
        first = outbox.enqueue(session, greet.call("Ada"))
    with engine.begin() as connection:
        second = outbox.enqueue(connection, greet.call("Grace"))
    with Session(engine) as session:
        outbox.enqueue(session, greet.call("nobody"))
    assert await relayed(outbox, engine) == 2
    assert await arrived(outbox.app) == [first.id, second.id]


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_async_sessions_and_connections_will_do(app: Headrace, postgres: str) -> None:
    outbox = Outbox(app)
    call = app.task(_nothing).call
    engine = create_async_engine(engine_url(postgres))
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create)
        jobs = [await outbox.enqueue_async(connection, call())]
    async with AsyncSession(engine) as session, session.begin():
        jobs.append(await outbox.enqueue_async(session, call()))
    async with AsyncSession(engine) as session:
        await outbox.enqueue_async(session, call())
    async with await psycopg.AsyncConnection.connect(postgres) as plain:
        jobs.append(await outbox.enqueue_async(plain, call()))
        topic = app.topic("orders", str)
        event = await outbox.publish_async(plain, topic, "paid", key="o-1")
    assert await relayed(outbox, engine) == 4
    await engine.dispose()
    assert [(one.id, one.key, one.data) for one in await topic.read()] == [(event, "o-1", "paid")]
    assert await arrived(app) == [job.id for job in jobs]


class Paid(msgspec.Struct):
    order: str
    cents: int


async def test_events_reach_every_group_that_the_app_declares(
    outbox: Outbox, database: str
) -> None:
    app = outbox.app
    orders = app.topic("orders", Paid, key=lambda paid: paid.order, shards=2)
    billed: list[tuple[str, int, str | None]] = []
    noted: list[tuple[str, int, str | None]] = []

    @orders.subscribe("billing")
    async def bill(event: Paid, delivery: Delivery) -> None:
        billed.append((delivery.id, event.cents, delivery.headers.get("tenant")))

    @orders.subscribe("ledger", ordered=True)
    async def note(event: Paid, delivery: Delivery) -> None:
        noted.append((delivery.id, event.cents, delivery.headers.get("tenant")))

    connection = connect(database)
    outbox.publish(connection, orders, Paid("o-0", 0))
    connection.rollback()
    ids = [
        outbox.publish(connection, orders, Paid(f"o-{cents}", cents), headers={"tenant": "eu"})
        for cents in range(1, 9)
    ]
    connection.commit()
    connection.close()
    # Before any worker runs: a group that is new begins no later than what the relay sends.
    assert await relayed(outbox, database) == 8
    async with app.worker():
        await until(lambda: len(billed) == len(noted) == 8)
    for events in (billed, noted):
        assert sorted(events) == sorted((id, at + 1, "eu") for at, id in enumerate(ids))


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_a_topic_that_is_full_is_waited_for(outbox: Outbox, database: str) -> None:
    orders = outbox.app.topic("orders", str, key=lambda event: "one", max_length=3)
    seen: list[str] = []

    @orders.subscribe("slow", ordered=True)
    async def note(event: str) -> None:
        seen.append(event)

    with transaction(database) as connection:
        for number in range(8):
            outbox.publish(connection, orders, str(number))
    relay = outbox.relay(database)
    assert await relay.step() == 3
    assert count(database) == 5
    await relay.close()
    async with outbox.relay(database), outbox.app.worker():
        await until(lambda: len(seen) == 8)
    assert seen == [str(number) for number in range(8)]


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_a_topic_of_another_app_is_refused(outbox: Outbox, database: str) -> None:
    other: Any
    with transaction(database) as connection:
        for other in (Headrace("memory://").topic("orders", str), "orders"):
            with pytest.raises(ConfigError, match="own app"):
                outbox.publish(connection, other, "a")


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_rows_may_come_as_dicts_to_their_user(app: Headrace, postgres: str) -> None:
    outbox = Outbox(app)
    with psycopg.connect(postgres, row_factory=psycopg.rows.dict_row) as connection:
        outbox.create(connection)
        outbox.enqueue(connection, app.task(_nothing).call())
        connection.execute("UPDATE headrace_outbox SET failed_ms = 1000, last_error = 'no'")
        (row,) = outbox.failed(connection)
    assert (row.error, row.failed) == ("no", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))


async def test_what_a_call_says_goes_along(outbox: Outbox, greet: Any, database: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with transaction(database) as connection:
        jobs = [
            outbox.enqueue(connection, greet.options(id="ada-1", queue="mail").call("Ada")),
            outbox.enqueue(connection, greet.options(delay=600).call("Ada")),
            outbox.enqueue(connection, greet.options(at=later).call("Ada")),
            outbox.enqueue(connection, greet.options(expires=60, priority=7).call("Ada")),
        ]
    assert await relayed(outbox, database) == 4
    named, delayed, at, plain = [await job.info() for job in jobs]
    assert (named.id, named.queue) == ("ada-1", "mail")
    assert delayed.due is not None
    assert at.due is not None
    assert delayed.due <= datetime.now(UTC) + timedelta(seconds=600)
    assert abs(at.due - later) < timedelta(milliseconds=2)
    assert plain.state == "waiting"


async def test_a_delay_counts_from_when_it_was_written(
    outbox: Outbox, greet: Any, database: str
) -> None:
    with transaction(database) as connection:
        job = outbox.enqueue(connection, greet.options(delay=600).call("Ada"))
        connection.execute("UPDATE headrace_outbox SET created_ms = created_ms - 500000")
    assert await relayed(outbox, database) == 1
    due = (await job.info()).due
    assert due is not None
    assert due <= datetime.now(UTC) + timedelta(seconds=100)


class Tenants(Middleware):
    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        return await send(call.with_headers({"tenant": "eu"}))


class Slow(Middleware):
    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        await asyncio.sleep(0)
        return await send(call)


async def test_middleware_wraps_the_writing(outbox: Outbox, greet: Any, database: str) -> None:
    outbox.app.middleware(Tenants())
    with transaction(database) as connection:
        job = outbox.enqueue(connection, greet.call("Ada"))
    await relayed(outbox, database)
    async with outbox.app.worker():
        assert await job.result(timeout=30) == "Ada eu"


class Counted(Middleware):
    def __init__(self) -> None:
        self.sent = 0

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        self.sent += 1
        return await send(call)


async def test_middleware_runs_when_the_row_is_written_and_never_in_the_relay(
    outbox: Outbox, greet: Any, database: str
) -> None:
    counted = Counted()
    outbox.app.middleware(counted)
    with transaction(database) as connection:
        outbox.enqueue(connection, greet.call("Ada"))
    assert counted.sent == 1
    assert await relayed(outbox, database) == 1
    assert counted.sent == 1


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_middleware_that_waits_needs_an_async_connection(
    app: Headrace, postgres: str
) -> None:
    outbox, call = Outbox(app), app.task(_nothing).call
    app.middleware(Slow())
    with psycopg.connect(postgres) as connection:
        outbox.create(connection)
        with pytest.raises(ConfigError, match="_async"):
            outbox.enqueue(connection, call())
    async with await psycopg.AsyncConnection.connect(postgres) as plain:
        await outbox.enqueue_async(plain, call())
    assert await relayed(outbox, postgres) == 1


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
def test_what_cannot_be_written_is_refused(
    app: Headrace, outbox: Outbox, database: str, engine: sa.Engine
) -> None:
    first, second = app.task(_nothing).call(), app.task(name="other")(_nothing).call()
    given: Any
    with transaction(database) as connection:
        for given in (chain(first, second), "a word"):
            with pytest.raises(ConfigError, match="single calls"):
                outbox.enqueue(connection, given)
        with pytest.raises(ConfigError, match="waits for others"):
            outbox.enqueue(connection, second.after(first))
    for given in (engine, object(), None):
        with pytest.raises(ConfigError, match="Session or Connection"):
            outbox.enqueue(given, first)
    assert count(database) == 0


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
async def test_sync_and_async_are_not_mixed_up(app: Headrace, postgres: str) -> None:
    outbox, call = Outbox(app), app.task(_nothing).call()
    plain: Any = await psycopg.AsyncConnection.connect(postgres)
    async with plain:
        with pytest.raises(ConfigError, match="_async"):
            outbox.enqueue(plain, call)
    blocking: Any = psycopg.connect(postgres)
    with blocking, pytest.raises(ConfigError, match="without _async"):
        await outbox.enqueue_async(blocking, call)


def test_nothing_is_imported_that_the_user_did_not_bring() -> None:
    program = """
import sqlite3, sys
from headrace import Headrace
from headrace.outbox import Inbox, Outbox
app = Headrace("memory://")
outbox, connection = Outbox(app), sqlite3.connect(":memory:")
outbox.create(connection)
outbox.enqueue(connection, app.task(len).call([]))
outbox.relay("sqlite:///shop.db")
print(sorted({name.split(".")[0] for name in sys.modules} & {"sqlalchemy", "psycopg", "redis"}))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"[]\n"


def test_the_name_of_the_table_is_checked() -> None:
    app = Headrace("memory://")
    for name in ("", "Outbox", "a b", "a;b", "a.b.c", 'a"b', 7):
        with pytest.raises(ConfigError, match="name of a table"):
            Outbox(app, table=name)  # type: ignore[arg-type]
    assert "shop.outbox" in Outbox(app, table="shop.outbox").ddl("postgresql")
    with pytest.raises(ConfigError, match="PostgreSQL"):
        Outbox(app).ddl("oracle")


def test_the_table_is_the_same_however_it_is_made(database: str, engine: sa.Engine) -> None:
    app = Headrace("memory://")
    by_hand, by_alchemy = Outbox(app, table="one"), Outbox(app, table="two")
    with transaction(database) as connection:
        for statement in by_hand.ddl(engine.dialect.name).split(";\n")[:-1]:
            connection.execute(statement)
        by_hand.create(connection)
    metadata = sa.MetaData()
    by_alchemy.table(metadata)
    metadata.create_all(engine)
    one, two = (_described(engine, name) for name in ("one", "two"))
    assert one == two


def _described(engine: sa.Engine, table: str) -> list[tuple[str, str, bool]]:
    found = sa.inspect(engine)
    assert [index["name"] for index in found.get_indexes(table)] == [f"{table}_locked"]
    columns = found.get_columns(table)
    # SQLite has one kind of integer, whatever it is called.
    kinds = {column["name"]: str(column["type"]) for column in columns}
    return [(column["name"], kinds[column["name"]], column["nullable"]) for column in columns]


async def _nothing() -> None:
    """A task."""
