"""Writes jobs and events into the user's own transaction."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from headrace.client.job import Job, Send
from headrace.client.topic.event_encoder import prepare
from headrace.client.topic.publication import PreparedEvent, Publication, Publish, PublishOutcome
from headrace.client.topic.topic import Topic
from headrace.core.clock import Duration
from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.core.job.retry import Retry
from headrace.core.task.call import Call
from headrace.core.topic.publish_options import PublishKwargs
from headrace.errors import ConfigError
from headrace.outbox import rows, schema
from headrace.outbox.relay import RETRY, Relay
from headrace.outbox.row_codec import encode_parcel
from headrace.outbox.rows import FailedRow
from headrace.outbox.sql.dialects import (
    POSTGRESQL,
    Dialect,
    Make,
    Statement,
    check_table,
    dialect_named,
)
from headrace.outbox.sql.user_connection import (
    AsyncConnection,
    SyncConnection,
    execute,
    execute_async,
)

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Table

    from headrace.app import Headrace

E = TypeVar("E")
R = TypeVar("R")


class Outbox:
    """The table through which an app sends jobs and events within a transaction. Each app needs a
    table of its own: rows do not name their app.

    Args:
        app: The app that sends them.
        table: The name of the table.
        notify: Whether a commit on PostgreSQL wakes the relays; if not, they only poll.
    """

    def __init__(
        self, app: Headrace, *, table: str = "headrace_outbox", notify: bool = True
    ) -> None:
        self.app = app
        self.table_name = check_table(table)
        self.notify = notify

    # The table

    def ddl(self, dialect: str) -> str:
        """SQL that makes the table in "sqlite" or "postgresql", for a migration.

        Args:
            dialect: "sqlite" or "postgresql".
        """
        return ";\n".join(schema.outbox_ddl(self.table_name, dialect_named(dialect))) + ";\n"

    def create(self, connection: SyncConnection) -> None:
        """Make the table, if it is not there. The transaction is yours to commit.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
        """
        for number in range(2):
            execute(connection, lambda d: Statement(schema.outbox_ddl(self.table_name, d)[number]))  # noqa: B023

    def table(self, metadata: MetaData) -> Table:
        """The table for SQLAlchemy, so that `metadata.create_all` and Alembic know of it.

        Args:
            metadata: The `MetaData` that gets the table.
        """
        from headrace.outbox.sql import sqlalchemy_tables

        return sqlalchemy_tables.outbox_table(self.table_name, metadata)

    # Writing

    def enqueue(self, connection: SyncConnection, call: Call[R]) -> Job[R]:
        """Have a job sent if the transaction of the connection commits. The store does not know the
        job before a relay has sent it.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
            call: What `task.call` made.
        """

        async def write(call: Call[Any]) -> Job[Any]:
            parcel = self._parcel(call)
            execute(connection, self._insert(call.queue, parcel))
            return Job(self.app, parcel.job_id, call.queue, call.returns)

        return _without_waiting(self._through(write)(_checked(call)))

    async def enqueue_async(self, connection: AsyncConnection, call: Call[R]) -> Job[R]:
        """`enqueue` for an async session or connection.

        Args:
            connection: An async connection or session of your database, in a transaction.
            call: What `task.call` made.
        """

        async def write(call: Call[Any]) -> Job[Any]:
            parcel = self._parcel(call)
            await execute_async(connection, self._insert(call.queue, parcel))
            return Job(self.app, parcel.job_id, call.queue, call.returns)

        return await self._through(write)(_checked(call))

    def publish(
        self,
        connection: SyncConnection,
        topic: Topic[E],
        event: E,
        **options: Unpack[PublishKwargs],
    ) -> str:
        """Have an event published if the transaction of the connection commits; its id.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
            topic: A topic of the same app.
            event: The event.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
            id: An id of your own; a second event with the same id is not added.
        """

        async def write(publication: Publication) -> PublishOutcome[Any]:
            outcome, prepared = _prepared(publication)
            for log, parcel, _ in prepared:
                execute(connection, self._insert(log, parcel))
            return outcome

        return _only_id(_without_waiting(self._publish(write, topic, event, options)))

    async def publish_async(
        self,
        connection: AsyncConnection,
        topic: Topic[E],
        event: E,
        **options: Unpack[PublishKwargs],
    ) -> str:
        """`publish` for an async session or connection.

        Args:
            connection: An async connection or session of your database, in a transaction.
            topic: A topic of the same app.
            event: The event.
            key: The key, instead of what the topic's `key` makes of the event.
            headers: Texts by name that travel with it.
            delay: How long from now it joins the topic: seconds or a timedelta. Nobody sees it
                until then.
            at: When it joins the topic: an aware datetime.
            expires: When it is no longer handled: seconds or a timedelta from now, or an aware
                datetime. In a group that has not begun it by then it is dead as `expired`.
            occurred_at: When it happened, an aware datetime, if that is not now.
            type: What kind of event it is; the name of its class unless said.
            source: Who publishes it, instead of the topic's `source`.
            correlation_id: What it belongs to. In a running handler, that of the event at hand
                unless said.
            confirm: "replicated" or "disk": this returns when a Redis replica, or the disk, has it.
            id: An id of your own; a second event with the same id is not added.
        """

        async def write(publication: Publication) -> PublishOutcome[Any]:
            outcome, prepared = _prepared(publication)
            for log, parcel, _ in prepared:
                await execute_async(connection, self._insert(log, parcel))
            return outcome

        return _only_id(await self._publish(write, topic, event, options))

    # Sending

    def relay(
        self,
        database: object,
        *,
        lease: Duration = 10.0,
        poll: Duration = 2.0,
        retry: Retry = RETRY,
    ) -> Relay:
        """Make the relay that sends the rows. A store that is away or full is waited for, however
        long.

        Args:
            database: An Engine or AsyncEngine of SQLAlchemy, a URL such as `sqlite:///shop.db` or
                `postgresql://…`, or a function that gives a new connection.
            lease: Seconds for which the rows of a dead relay stay locked.
            poll: The longest time between two polls, in seconds.
            retry: For rows that the store refuses for good.
        """
        return Relay(
            self.app,
            self.table_name,
            database,
            notify=self.notify,
            lease=lease,
            poll=poll,
            retry=retry,
        )

    def failed(self, connection: SyncConnection) -> list[FailedRow]:
        """The rows that the relay has given up, oldest first.

        Args:
            connection: A connection, a cursor or a session of your database.
        """
        return rows.failed_rows(connection, self.table_name)

    def retry_failed(self, connection: SyncConnection, id: str | None = None) -> int:
        """Have given-up rows tried again: all, or that of one job or event. Returns how many.

        Args:
            connection: A connection, a cursor or a session of your database, in a transaction.
            id: That of a job or an event; all unless said.
        """
        return rows.retry_failed(connection, self.table_name, id)

    def _through(self, write: Send) -> Send:
        """`write` inside of the app's middleware, as if it were sending."""
        through = self.app.outgoing.sending
        return write if through is None else through(write)

    def _publish(
        self, write: Publish, topic: Topic[E], event: E, options: PublishKwargs
    ) -> Awaitable[PublishOutcome[Any]]:
        """Publish by `write`, inside of the app's middleware."""
        through = self.app.outgoing.publishing
        publication = Publication(self._own(topic), [event], {**options})
        return (write if through is None else through(write))(publication)

    def _own(self, topic: Topic[E]) -> Topic[E]:
        if getattr(topic, "app", None) is not self.app:
            raise ConfigError(f"an outbox publishes to topics of its own app, not to {topic!r}")
        return topic

    def _parcel(self, call: Call[Any]) -> Parcel:
        if call.options.confirm:
            raise ConfigError(
                "confirm= is for sends to the store; what an outbox takes is certain with its "
                "transaction"
            )
        if call.packer is not None:
            call.packer.check_inside(call.task, call.payload)
        return call.parcel(self.app.clock.now_ms())

    def _insert(self, destination: str, parcel: Parcel) -> Make:
        values = {
            "id": ids.to_text(parcel.job_id),
            "destination": destination,
            "parcel": encode_parcel(parcel),
        }

        def make(dialect: Dialect) -> Statement:
            sql = (
                f"INSERT INTO {self.table_name} (id, destination, parcel, created_ms) "
                f"VALUES (:id, :destination, :parcel, {dialect.now})"
            )
            if self.notify and dialect is POSTGRESQL:
                sql += f" RETURNING pg_notify('{self.table_name}', '')"
            return Statement(sql, values)

        return make


def _checked(call: Call[R]) -> Call[R]:
    if not isinstance(call, Call):
        raise ConfigError(
            f"an outbox takes single calls, like task.call(…), not {call!r}; to start a flow, "
            "enqueue a task that sends it"
        )
    return call


def _prepared(publication: Publication) -> tuple[PublishOutcome[Any], list[PreparedEvent]]:
    """The outcome of a publication once it is written, and what to write."""
    topic, options = publication.topic, publication.options
    prepared = [prepare(topic, event, options) for event in publication.events]
    outcome: PublishOutcome[Any] = PublishOutcome()
    outcome.add([each.parcel.job_id for each in prepared])
    return outcome, prepared


def _only_id(outcome: PublishOutcome[Any]) -> str:
    if len(outcome) != 1:
        raise ConfigError(f"a middleware must publish an event once, not {len(outcome)} times")
    return str(outcome[0].id)


def _without_waiting(awaitable: Awaitable[R]) -> R:
    """The result of an awaitable that never suspends, without an event loop."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: R = end.value
        return result
    steps.close()
    raise ConfigError(
        "a middleware of the app waits for something in `send` or `publish`, which only the "
        "methods of an outbox that end in _async can do"
    )
