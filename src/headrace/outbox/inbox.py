"""Records handled deliveries in the user's own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.context import Context
from headrace.client.topic.delivery import Delivery
from headrace.core.clock import Duration, to_ms
from headrace.core.queue_names import group_queue, group_source
from headrace.errors import ConfigError
from headrace.outbox import schema
from headrace.outbox.sql.dialects import Dialect, Make, Statement, check_table, dialect_named
from headrace.outbox.sql.user_connection import (
    AsyncConnection,
    SyncConnection,
    execute,
    execute_async,
)

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table


class Inbox:
    """The table of the events and jobs that each group, or task, has handled.

    What `first` writes commits or rolls back with the effects of the handler. So a redelivery finds
    it exactly if its effects are there.

    Args:
        table: The name of the table.
    """

    def __init__(self, *, table: str = "headrace_inbox") -> None:
        self.table_name = check_table(table)

    def ddl(self, dialect: str) -> str:
        """SQL that makes the table in "sqlite" or "postgresql", for a migration.

        Args:
            dialect: "sqlite" or "postgresql".
        """
        dialect_named(dialect)
        return ";\n".join(schema.inbox_ddl(self.table_name)) + ";\n"

    def create(self, connection: SyncConnection) -> None:
        """Make the table, if it is not there. The transaction is yours to commit.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
        """
        for sql in schema.inbox_ddl(self.table_name):
            execute(connection, lambda _, sql=sql: Statement(sql))  # type: ignore[misc]

    def table(self, metadata: MetaData) -> Table:
        """The table for SQLAlchemy, so that `metadata.create_all` and Alembic know of it.

        Args:
            metadata: The `MetaData` that gets the table.
        """
        from headrace.outbox.sql import sqlalchemy_tables

        return sqlalchemy_tables.inbox_table(self.table_name, metadata)

    def first(
        self, connection: SyncConnection, who: Context | Delivery | str, id: str | None = None
    ) -> bool:
        """Whether this is handled for the first time: the current event or job, or the one with
        this `id` by a consumer of this name. If another transaction is handling it, waits until
        that one has ended.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
            who: The `Context` or `Delivery` at hand, or the name of a consumer.
            id: What is handled, if `who` is a name.
        """
        return bool(execute(connection, self._insert(who, id)).rows)

    async def first_async(
        self, connection: AsyncConnection, who: Context | Delivery | str, id: str | None = None
    ) -> bool:
        """`first` for an async session or connection.

        Args:
            connection: An async connection or session of your database, in a transaction.
            who: The `Context` or `Delivery` at hand, or the name of a consumer.
            id: What is handled, if `who` is a name.
        """
        return bool((await execute_async(connection, self._insert(who, id))).rows)

    def forget(self, connection: SyncConnection, older_than: Duration) -> int:
        """Remove older records, and return their number. Keep them for longer than an event can be
        redelivered: the retention of its topic, and the time for which dead ones are kept.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
            older_than: Seconds or a timedelta.
        """
        return execute(connection, self._delete(older_than)).changed

    async def forget_async(self, connection: AsyncConnection, older_than: Duration) -> int:
        """`forget` for an async session or connection.

        Args:
            connection: An async connection or session of your database, in a transaction.
            older_than: Seconds or a timedelta.
        """
        return (await execute_async(connection, self._delete(older_than))).changed

    def _insert(self, who: Context | Delivery | str, id: str | None) -> Make:
        consumer, id = _named(who, id)

        def make(dialect: Dialect) -> Statement:
            return Statement(
                f"INSERT INTO {self.table_name} (consumer, id, seen_ms) "
                f"VALUES (:consumer, :id, {dialect.now}) ON CONFLICT DO NOTHING RETURNING id",
                {"consumer": consumer, "id": id},
            )

        return make

    def _delete(self, older_than: Duration) -> Make:
        age_ms = to_ms("forget(older_than)", older_than)
        sql = f"DELETE FROM {self.table_name} WHERE seen_ms <"
        return lambda dialect: Statement(f"{sql} {dialect.now} - {age_ms}")


def _named(who: object, id: object) -> tuple[str, str]:
    if isinstance(who, Context | Delivery) and id is None:
        return _consumer(who), who.id if isinstance(who, Delivery) else who.job.id
    if isinstance(who, str) and who and isinstance(id, str) and id:
        return who, id
    raise ConfigError(
        "inbox.first() takes the current context or delivery, or the name of a group and an id, "
        f"not {who!r} and {id!r}"
    )


def _consumer(who: Context | Delivery) -> str:
    """The group of a topic, the same for all shards, or the queue of a task."""
    if isinstance(who, Delivery):
        return group_queue(who.topic, who.group)
    source = group_source(who.queue)
    return who.queue if source is None else group_queue(source.topic, source.group)
