"""Databases of users: SQLite files and a real PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.once import once
from tests.outbox.databases import engine_url
from tests.outbox.postgres import PostgresServer, make_cluster, new_database


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL that all tests share; each uses a database of its own."""
    given = os.environ.get("HEADRACE_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with PostgresServer(once(tmp_path_factory, "postgres", make_cluster)) as server:
        yield server.url


@pytest.fixture
def postgres(postgres_url: str) -> str:
    return new_database(postgres_url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres")
        return url
    return f"sqlite:///{tmp_path}/users.db"


@pytest.fixture
def engine(database: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(engine_url(database))
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "redis"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Both kinds of store that several processes can share."""
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url
    return f"sqlite:///{tmp_path}/jobs.db"
