"""A Redis of the benchmark's own, so that nothing else is measured or harmed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import ConfigError


@contextmanager
def private_redis() -> Iterator[str]:
    """The URL of a server without persistence on a free loopback port."""
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        raise ConfigError(
            "no redis-server or valkey-server is installed: install one, or give --redis URL"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    ends_at = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.05)
