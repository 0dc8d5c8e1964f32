"""A Redis or Valkey server for tests."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_binary() -> str:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    raise RuntimeError(
        "the tests need a Redis server: install it with 'apt-get install redis-server' (or "
        "valkey-server), or point HEADRACE_TEST_REDIS_URL at one; 'make test' does the former"
    )


class RedisServer:
    """A server process on a free loopback port, with its data in `folder`."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._settings = {"save": "", "appendonly": "no", **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = self.command()
        log = (self._folder / "redis.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_ready()

    def command(self) -> list[str]:
        command = [server_binary(), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self._folder), "--daemonize", "no", "--loglevel", "warning"]
        for name, value in self._settings.items():
            command += [f"--{name}", *value.split(" ")] if value else [f"--{name}", ""]
        return command

    def kill(self) -> None:
        """As a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def call(self, *command: str) -> bytes:
        """One command, without a driver: the first part of the answer."""
        parts = [f"${len(part.encode())}\r\n{part}\r\n" for part in command]
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            return link.recv(1 << 20)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            process.wait(timeout=30)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server is not running"
        return self._process

    def _wait_until_ready(self) -> None:
        ends_at = time.monotonic() + 30
        while time.monotonic() < ends_at:
            try:
                if b"PONG" in self.call("PING"):
                    return
            except OSError:
                pass
            if self._running().poll() is not None:
                break
        raise RuntimeError(f"redis-server did not start: {self._folder / 'redis.log'}")

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
