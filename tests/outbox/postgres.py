"""A PostgreSQL server for tests, with its data in a folder that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import psycopg

from tests.servers import Service, free_port

# Nothing here has to outlive the server.
_QUICK = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=60")


def binary(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(places[-1]) if places else shutil.which(name)
    if found is None:
        raise RuntimeError(
            "the tests need a PostgreSQL server: install it with 'apt-get install postgresql', or "
            "point HEADRACE_TEST_POSTGRES_URL at one; 'make test' does the former"
        )
    return found


class _Workplace:
    """A folder in which PostgreSQL's programs run. They refuse to run as root, so root starts them
    as another user, to whom the folder belongs."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self.data = self.folder / "data"
        self._user = _another_user() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)

    def run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=None if self._user is None else self._user.pw_uid,
                group=None if self._user is None else self._user.pw_gid,
                extra_groups=None if self._user is None else [],
            )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def make_cluster(folder: Path) -> None:
    """Put the files of a fresh PostgreSQL into the folder, for servers to begin with a copy."""
    place = _Workplace()
    command = [binary("initdb"), "-D", str(place.data), "-U", "headrace", "-A", "trust"]
    command += ["-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
    assert place.run(command).wait(120) == 0, place.log()
    _copy(place.data, folder)
    place.remove()


def _copy(data: Path, folder: Path) -> None:
    # With their owner, who is not ourselves if we are root.
    subprocess.run(["cp", "-a", data, folder], check=True)


class PostgresServer(Service):
    """A server process on a free loopback port, with a copy of what `make_cluster` has put into
    `cluster`."""

    def __init__(self, cluster: Path) -> None:
        self.port = free_port()
        self.url = f"postgresql://headrace@127.0.0.1:{self.port}/postgres"
        self._cluster = cluster
        self._place = _Workplace()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data = self._place.data
        _copy(self._cluster / data.name, data.parent)
        command = [binary("postgres"), "-D", str(data), "-p", str(self.port), "-h", "127.0.0.1"]
        command += ["-c", "unix_socket_directories="]
        for setting in _QUICK:
            command += ["-c", setting]
        self._process = self._place.run(command)
        self._wait_until_ready()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
        self._place.remove()

    def _wait_until_ready(self) -> None:
        ends_at = time.monotonic() + 60
        while time.monotonic() < ends_at:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None:
                    break
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(f"postgres did not start: {self._place.log()}")


def new_database(server_url: str) -> str:
    """The URL of a fresh database on a server."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server_url.rpartition('/')[0]}/{name}"


def _another_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("PostgreSQL does not run as root, and there is no user 'postgres'")
