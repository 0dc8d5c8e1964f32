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


class PostgresServer(Service):
    """A server process on a free loopback port. It refuses to run as root, so root starts it as
    another user."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"postgresql://headrace@127.0.0.1:{self.port}/postgres"
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._user = _another_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        data = str(self._folder / "data")
        command = [binary("initdb"), "-D", data, "-U", "headrace", "-A", "trust", "-E", "UTF8"]
        made = self._run([*command, "--no-locale", "--no-sync", "--no-instructions"])
        assert made.wait(120) == 0, self._log()
        command = [binary("postgres"), "-D", data, "-p", str(self.port), "-h", "127.0.0.1"]
        command += ["-c", "unix_socket_directories="]
        for setting in _QUICK:
            command += ["-c", setting]
        self._process = self._run(command)
        self._wait_until_ready()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                user=None if self._user is None else self._user.pw_uid,
                group=None if self._user is None else self._user.pw_gid,
                extra_groups=None if self._user is None else [],
            )

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
        raise RuntimeError(f"postgres did not start: {self._log()}")

    def _log(self) -> str:
        return (self._folder / "log").read_text()


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
