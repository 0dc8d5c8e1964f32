"""What was handled is noted in the transaction of the handler: a redelivery changes nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace import ConfigError, Context, Headrace, Retry
from headrace.outbox import Inbox
from tests.outbox.databases import connect, count, engine_url, transaction


@pytest.fixture
def inbox(database: str) -> Inbox:
    inbox = Inbox()
    with transaction(database) as connection:
        inbox.create(connection)
    return inbox


def test_each_group_handles_an_event_once(inbox: Inbox, database: str) -> None:
    seen = []
    for group, event in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "1"), ("b", "1")]:
        with transaction(database) as connection:
            seen.append(inbox.first(connection, group, event))
    assert seen == [True, True, True, False, False]


def test_what_was_rolled_back_was_not_handled(
    inbox: Inbox, database: str, engine: sa.Engine
) -> None:
    with Session(engine) as session:
        assert inbox.first(session, "billing", "1")
        assert not inbox.first(session, "billing", "1")
    with Session(engine) as session, session.begin():
        assert inbox.first(session, "billing", "1")
    with engine.begin() as connection:
        assert not inbox.first(connection, "billing", "1")


async def test_async_sessions_and_connections_will_do(postgres: str) -> None:
    inbox = Inbox()
    engine = create_async_engine(engine_url(postgres))
    async with AsyncSession(engine) as session, session.begin():
        await session.run_sync(inbox.create)
        assert await inbox.first_async(session, "billing", "1")
    async with engine.begin() as connection:
        assert not await inbox.first_async(connection, "billing", "1")
    await engine.dispose()
    async with await psycopg.AsyncConnection.connect(postgres) as plain:
        assert not await inbox.first_async(plain, "billing", "1")
        assert await inbox.forget_async(plain, 0) == 1


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_of_two_at_the_same_time_one_is_first(postgres: str, ends: str) -> None:
    inbox = Inbox()
    waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with connect(postgres) as one, connect(postgres) as two, ThreadPoolExecutor() as threads:
        inbox.create(one)
        one.commit()
        assert inbox.first(one, "billing", "1")
        other = threads.submit(inbox.first, two, "billing", "1")
        with connect(postgres) as watching:
            watching.autocommit = True
            while watching.execute(waits).fetchone() == (0,):
                assert not other.done()
        getattr(one, ends)()
        assert other.result(timeout=30) is (ends == "rollback")


def test_old_notes_are_forgotten(inbox: Inbox, database: str) -> None:
    with transaction(database) as connection:
        inbox.first(connection, "billing", "old")
        connection.execute("UPDATE headrace_inbox SET seen_ms = seen_ms - 90000000")
        inbox.first(connection, "billing", "young")
        assert inbox.forget(connection, timedelta(days=1)) == 1
        assert not inbox.first(connection, "billing", "young")
        assert inbox.first(connection, "billing", "old")


async def test_a_task_that_runs_again_after_its_commit_has_its_effect_once(
    app: Headrace, inbox: Inbox, database: str
) -> None:
    with transaction(database) as connection:
        connection.execute("CREATE TABLE payments (cents INTEGER)")

    @app.task(retry=Retry(3, backoff=[0.01]))
    async def pay(ctx: Context, cents: int) -> int:
        with transaction(database) as connection:
            if inbox.first(connection, ctx):
                connection.execute(f"INSERT INTO payments VALUES ({cents})")
        if ctx.attempt < 3:
            raise ConnectionError("after the commit")
        return ctx.attempt

    async with app.worker():
        jobs = [await pay.enqueue(cents) for cents in (995, 995)]
        assert [await job.result(timeout=30) for job in jobs] == [3, 3]
    assert count(database, "payments") == 2


async def test_an_event_is_noted_under_its_group_from_whichever_shard_it_comes(
    app: Headrace, inbox: Inbox, database: str
) -> None:
    orders = app.topic("orders", int, key=str, shards=3)
    queues: list[str] = []

    @orders.subscribe("billing")
    async def bill(cents: int, ctx: Context) -> None:
        with transaction(database) as connection:
            assert inbox.first(connection, ctx)
        queues.append(ctx.queue)

    async with app.worker():
        published = await orders.publish_many(range(20))
        async with asyncio.timeout(30):
            while len(queues) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert set(queues) == {"billing@orders", "billing@orders#1", "billing@orders#2"}
    with transaction(database) as connection:
        for event in published.ids:
            assert not inbox.first(connection, "billing@orders", event)


def test_the_table_is_the_same_however_it_is_made(database: str, engine: sa.Engine) -> None:
    by_hand, by_alchemy, metadata = Inbox(table="one"), Inbox(table="two"), sa.MetaData()
    with transaction(database) as connection:
        for statement in by_hand.ddl(engine.dialect.name).split(";\n")[:-1]:
            connection.execute(statement)
    by_alchemy.table(metadata)
    metadata.create_all(engine)
    found = sa.inspect(engine)
    one, two = (
        [(column["name"], str(column["type"]), column["nullable"]) for column in columns]
        for columns in (found.get_columns("one"), found.get_columns("two"))
    )
    assert one == two
    with engine.begin() as opened:
        assert by_alchemy.first(opened, "a", "1")


def test_wrong_use_is_refused(inbox: Inbox, database: str) -> None:
    with transaction(database) as connection:
        wrong: list[tuple[Any, Any]] = [
            ("billing", None),
            ("", "1"),
            ("a", ""),
            (7, "1"),
            (None, "1"),
        ]
        for who, event in wrong:
            with pytest.raises(ConfigError, match="inbox"):
                inbox.first(connection, who, event)
