"""`headrace outbox`: relay what transactions wrote, and list or retry failed rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import click

from headrace import Headrace
from headrace.cli.app_command import json_option
from headrace.cli.app_loader import load_app
from headrace.cli.command_group import CommandGroup
from headrace.cli.logs import log_to_stderr
from headrace.cli.output import moment, show_result, show_table
from headrace.core.display import plural
from headrace.outbox import FailedRow, Inbox, Outbox, Relay
from headrace.outbox.sql.open_database import open_database
from headrace.outbox.sql.user_connection import SyncConnection
from headrace.worker.processes.signals import ending_signals, let_go_of_closed_terminal

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

_HEADINGS = ("id", "destination", "failed", "attempts", "error")


def table_option(command: Command) -> Command:
    return click.option(
        "--table", default="headrace_outbox", show_default=True, help="The outbox's table."
    )(command)


def in_database(command: Command) -> Command:
    """A command about the outbox of a database."""
    return click.option(
        "--database",
        required=True,
        envvar="HEADRACE_DATABASE",
        show_envvar=True,
        metavar="URL",
        help="Where the outbox is: sqlite:///shop.db, postgresql://…, or a URL of SQLAlchemy.",
    )(table_option(command))


@click.group(cls=CommandGroup)
def outbox() -> None:
    """Send jobs and events that transactions of your database wrote."""


@outbox.command()
@click.argument("app")
@in_database
def relay(app: str, database: str, table: str) -> None:
    """Send what the outbox of APP holds, until SIGTERM, SIGHUP or Ctrl-C.

    Run as many as you like.
    """
    sender = Outbox(load_app(app), table=table).relay(database)
    log_to_stderr(None, None)
    asyncio.run(_until_signalled(sender))


@outbox.command()
@in_database
@json_option
def failed(database: str, table: str, as_json: bool) -> None:
    """Show rows that the relay gave up, because the store refused them."""
    found = _asked(database, _outbox(table).failed)
    show_table(found, _HEADINGS, _row, nothing="nothing failed", as_json=as_json)


@outbox.command()
@click.argument("id", required=False)
@in_database
@json_option
def retry(id: str | None, database: str, table: str, as_json: bool) -> None:
    """Send failed rows again: that of the job or event ID, or all."""
    count = _asked(database, lambda connection: _outbox(table).retry_failed(connection, id))
    show_result(f"{plural(count, 'row')} will be retried", {"retried": count}, as_json=as_json)


@outbox.command()
@click.argument("dialect", type=click.Choice(["sqlite", "postgresql"]))
@table_option
def ddl(dialect: str, table: str) -> None:
    """Print the SQL that makes the tables of an outbox and an inbox, for a migration."""
    click.echo(_outbox(table).ddl(dialect) + Inbox().ddl(dialect), nl=False)


async def _until_signalled(sender: Relay) -> None:
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, sender.stop)
    await sender.run()
    let_go_of_closed_terminal()


def _outbox(table: str) -> Outbox:
    """The outbox with this table; its app does not matter here."""
    return Outbox(Headrace("memory://"), table=table)


def _asked(url: str, question: Callable[[SyncConnection], T]) -> T:
    async def answer() -> T:
        database = open_database(url)
        try:
            return await database.run(question)
        finally:
            await database.close()

    return asyncio.run(answer())


def _row(row: FailedRow) -> tuple[str | int, ...]:
    return (row.id, row.destination, moment(row.failed), row.attempts, row.error)
