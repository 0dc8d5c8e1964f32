"""`headrace outbox`: relay, failed, retry, ddl."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import main
from headrace.outbox import Outbox
from tests.cli.conftest import Start
from tests.cli.programs import eventually

DATABASE = "sqlite:///users.db"


@pytest.fixture
def written(shop: Path) -> str:
    """The id of a job that waits in the outbox of a database in the shop's directory."""
    app = Headrace()

    @app.task
    async def touch(name: str) -> None: ...

    with closing(sqlite3.connect("users.db")) as connection:
        outbox = Outbox(app)
        outbox.create(connection)
        job = outbox.enqueue(connection, touch.call("relayed"))
        connection.commit()
    return job.id


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["outbox", *arguments])


def change(statement: str) -> None:
    with closing(sqlite3.connect("users.db")) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.usefixtures("written")
def test_a_relay_sends_what_was_written_until_it_is_asked_to_end(shop: Path, start: Start) -> None:
    relay = start("outbox", "relay", "shop:app", "--database", DATABASE)
    start("worker", "shop:app")
    eventually("the job has run", (shop / "relayed").exists)
    relay.process.send_signal(signal.SIGTERM)
    assert relay.process.wait(90) == 0


def test_what_failed_is_shown_and_tried_again(written: str) -> None:
    assert run("failed", "--database", DATABASE).stdout == "nothing failed\n"
    change("UPDATE headrace_outbox SET failed_ms = 1, attempts = 3, last_error = 'StoreFull: no'")
    heading, row = run("failed", "--database", DATABASE).stdout.splitlines()
    assert heading.split() == ["ID", "DESTINATION", "FAILED", "ATTEMPTS", "ERROR"]
    assert row.split()[0] == written
    assert row.endswith("3  StoreFull: no")
    (document,) = json.loads(run("failed", "--database", DATABASE, "--json").stdout)
    assert document["id"] == written
    assert run("retry", "other", "--database", DATABASE).stdout == "0 rows will be retried\n"
    assert run("retry", "--database", DATABASE).stdout == "1 row will be retried\n"
    assert json.loads(run("retry", "--database", DATABASE, "--json").stdout) == {"retried": 0}


def test_ddl_makes_both_tables(shop: Path) -> None:
    made = run("ddl", "sqlite", "--table", "letters").stdout
    with closing(sqlite3.connect("new.db")) as connection:
        connection.executescript(made)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert {"letters", "headrace_inbox"} <= {name for (name,) in tables}
    assert "BYTEA" in run("ddl", "postgresql").stdout


@pytest.mark.usefixtures("shop")
def test_the_database_must_be_named() -> None:
    assert "--database" in run("relay", "shop:app").output
    assert run("relay", "shop:app").exit_code == 2
    result = run("failed", "--database", "oracle://here")
    assert result.exit_code != 0
