"""Finding the master that a group of sentinels watches over."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from redis.asyncio import Redis
from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import RedisError

from headrace.core.address import without_password
from headrace.errors import ConfigError

_PORT = 26379
_TIMEOUT = 2.0


class Watch(msgspec.Struct, frozen=True):
    """What a `redis+sentinel://` URL says: whom to ask, for which master."""

    sentinels: tuple[tuple[str, int], ...]
    master: str
    db: int = 0
    username: str | None = None
    password: str | None = None


def parse(url: str) -> Watch:
    """`redis+sentinel://[user:password@]host[:port],host[:port]/master[/db]`; the password is the
    servers', the sentinels are asked without one."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    master, _, db = parts.path.strip("/").partition("/")
    try:
        sentinels = tuple(_address(host) for host in hosts.split(","))
        if not master or parts.query:
            raise ValueError
        return Watch(
            sentinels,
            unquote(master),
            int(db or 0),
            unquote(username) or None,
            unquote(password) or None,
        )
    except ValueError:
        raise ConfigError(
            f"the URL {without_password(url)!r} does not name sentinels and a master: write "
            "redis+sentinel://host1,host2/master/0"
        ) from None


def _address(host: str) -> tuple[str, int]:
    name, _, port = host.strip().partition(":")
    if not name:
        raise ValueError(host)
    return name, int(port or _PORT)


class SentinelConnection(Connection):
    """A connection to whatever server is the master when it is made. After a failover the old one
    answers READONLY or not at all; the connection is dropped, and the next finds the new master."""

    def __init__(self, *, watch: Watch, **options: Any) -> None:
        super().__init__(db=watch.db, username=watch.username, password=watch.password, **options)
        self._watch = watch

    async def connect(self) -> None:
        if not self.is_connected:
            self.host, self.port = await _find_master(self._watch)
        await super().connect()  # type: ignore[no-untyped-call]


async def _find_master(watch: Watch) -> tuple[str, int]:
    """The address of the master by the word of the first sentinel that knows it."""
    problem = "none of them answers"
    for host, port in watch.sentinels:
        sentinel: Redis = Redis(
            host=host, port=port, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
        try:
            found = await sentinel.execute_command(  # type: ignore[no-untyped-call]
                "SENTINEL", "GET-MASTER-ADDR-BY-NAME", watch.master
            )
        except (RedisError, OSError):
            continue
        finally:
            await sentinel.aclose()
        if found:
            return found[0].decode(), int(found[1])
        problem = "they do not know it"
    raise Unreachable(f"no sentinel tells where master {watch.master!r} is: {problem}")
