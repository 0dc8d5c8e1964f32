"""gevent and eventlet, which replace threads: portals work, of all apps, in programs and in
gunicorn."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from headrace import Headrace
from tests.servers import free_port

SHOP = Path(__file__).with_name("greenlet_shop.py")


def waiting(url: str, namespace: str) -> int:
    async def counted() -> int:
        async with Headrace(url, namespace=namespace) as app:
            return sum(queue.waiting for queue in await app.admin.queues())

    return asyncio.run(counted())


@pytest.mark.parametrize(("kind", "store"), [("gevent", "redis"), ("eventlet", "sqlite")])
def test_greenlets_send_and_ask(
    kind: str, store: str, tmp_path: Path, namespace: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if store == "redis":
        url = request.getfixturevalue("redis_url")
    ended = subprocess.run(
        [sys.executable, str(SHOP), kind, url, namespace],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ("waiting True\n", 0), ended.stderr
    assert waiting(url, namespace) == 11


@pytest.mark.parametrize("preload", [True, False])
def test_gunicorn_sends_from_greenlets(
    preload: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if not preload:
        url = request.getfixturevalue("redis_server").url
    port, log = free_port(), tmp_path / "gunicorn.log"
    command = [
        *(sys.executable, "-m", "gunicorn", "greenlet_shop:web", "--chdir", str(SHOP.parent)),
        *("-k", "gevent", "-b", f"127.0.0.1:{port}", "--no-control-socket"),
        *(["--preload"] if preload else []),
    ]
    with log.open("wb") as out:
        env = {**os.environ, "SHOP_URL": url}
        server = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        for _ in range(3):
            assert asked(f"http://127.0.0.1:{port}", server), log.read_text()
    finally:
        server.terminate()
        server.wait(30)
    assert waiting(url, "shop") == 6


def asked(address: str, server: subprocess.Popen[bytes]) -> bool:
    """Whether the server answers, once it listens."""
    for _ in range(300):
        try:
            with urlopen(address, timeout=20) as answer:
                return bool(answer.status == 200)
        except URLError as error:
            if server.poll() is not None or not isinstance(error.reason, ConnectionRefusedError):
                return False
        time.sleep(0.1)
    return False
