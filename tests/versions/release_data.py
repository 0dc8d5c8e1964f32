"""Data as a release of Headrace left it: an SQLite file, and the keys of a Redis server.

Each release writes its own, once, right before its tag, and keeps those of the releases before it:

    python -m tests.versions.release_data

Until the first release, write it anew whenever tables or keys change. Never write the data of a
released version again: that is what its users have.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis import Redis

from headrace.core.version import VERSION
from tests.servers import RedisServer
from tests.versions.shop import Shop

DATA = Path(__file__).parent / "data"
_NEVER = -1
# What expires before is gone by the time that another version reads it.
_LONG_AFTER_MS = datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000


def read_file(release: str, path: Path) -> None:
    """Put the SQLite file of a release at `path`."""
    path.write_bytes(gzip.decompress((DATA / f"{release}.db.gz").read_bytes()))


def read_keys(release: str, url: str) -> None:
    """Put the keys of a release into the server at `url`, with the times at which they expire."""
    with closing(Redis.from_url(url)) as redis:
        for key, (expires_ms, dump) in json.loads((DATA / f"{release}.json").read_text()).items():
            expiring = max(0, expires_ms)
            redis.restore(
                key.encode("latin-1"), expiring, base64.b64decode(dump), absttl=bool(expiring)
            )


def _write_file(path: Path) -> None:
    asyncio.run(Shop(f"sqlite:///{path}").write())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    # Without a name and a time: the same data gives the same bytes.
    (DATA / f"{VERSION}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _write_keys(url: str) -> None:
    asyncio.run(Shop(url).write())
    with closing(Redis.from_url(url)) as redis:
        commands: Any = redis
        kept = {
            name.decode("latin-1"): (expires_ms, base64.b64encode(commands.dump(name)).decode())
            for name in sorted(commands.keys("*"))
            if (expires_ms := commands.pexpiretime(name)) == _NEVER or expires_ms > _LONG_AFTER_MS
        }
    (DATA / f"{VERSION}.json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write_file(Path(folder, "shop.db"))
        with RedisServer(Path(folder)) as server:
            _write_keys(server.url)
    for path in sorted(DATA.glob(f"{VERSION}.*")):
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
