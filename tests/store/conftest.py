"""What several tests of stores need."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from tests.rights import user_of_servers
from tests.servers import RedisCluster


@pytest.fixture(scope="session")
def users_url(redis_url: str) -> Iterator[str]:
    """The shared Redis for a user with the rights that the documents advise, in all namespaces of
    tests."""
    name = f"shop-{uuid.uuid4().hex[:12]}"
    with closing(redis.Redis.from_url(redis_url)) as server:
        server.execute_command(*user_of_servers("test-*", name=name))  # type: ignore[no-untyped-call]
        parts = urlsplit(redis_url)
        host = parts.netloc.rpartition("@")[2]
        yield parts._replace(netloc=f"{name}:password@{host}").geturl()
        server.execute_command("ACL", "DELUSER", name)  # type: ignore[no-untyped-call]


@pytest.fixture
def spread_namespace(cluster: RedisCluster) -> str:
    """A namespace whose queues a, b and c live on three nodes."""
    while True:
        namespace = f"test-{uuid.uuid4().hex[:12]}"
        owners = {cluster.owner(f"{{{namespace}:{queue}}}:ready") for queue in ("a", "b", "c")}
        if len(owners) == 3:
            return namespace


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """The key and the certificate of a server on this machine."""
    key, crt = tmp_path / "server.key", tmp_path / "server.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(crt), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return key, crt
