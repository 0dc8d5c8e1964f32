"""Which server to talk to, and what its settings mean for the jobs."""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.core.address import without_password
from headrace.errors import ConfigError, StoreError, StoreMismatch, StoreUnavailable
from headrace.store.redis import sentinel
from headrace.store.redis.link import Link

log = logging.getLogger("headrace.store")

MIN_VERSION = (7, 0)
_QUERY = {"client_name", "db", "password", "username"}
_EVICTING = "maxmemory-policy"


SENTINEL_SCHEME = "redis+sentinel://"
_OPTIONS: dict[str, Any] = {
    "protocol": 2,
    "socket_timeout": None,
    "socket_connect_timeout": 5.0,
    "socket_keepalive": True,
    "socket_read_size": 256 * 1024,
    # One xadd() sent twice is two jobs: nothing is repeated behind our back.
    "retry": Retry(NoBackoff(), 0),
}


class Server:
    """The server behind a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        if url.startswith(SENTINEL_SCHEME):
            watch = sentinel.parse(url)
            self._pool = ConnectionPool(
                connection_class=sentinel.SentinelConnection, watch=watch, **_OPTIONS
            )
            return
        _check_parts(url)
        try:
            self._pool = ConnectionPool.from_url(url, **_OPTIONS)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"the Redis URL {without_password(url)!r} cannot be used: {error}"
            ) from None

    def connect(self) -> AbstractConnection:
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def check(self, link: Link, *, require_durable: bool) -> None:
        """Refuse a server that is too old; say which settings may lose jobs, and refuse those
        under `require_durable`."""
        try:
            info = _parsed(await link.call("INFO", "everything"))
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error} (URL {without_password(self.url)})") from error
        version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
        if version < MIN_VERSION:
            raise StoreMismatch(
                f"Redis {info.get('redis_version')} at {without_password(self.url)} is too old: "
                "Headrace needs Redis 7.0 or newer, or Valkey"
            )
        risks = await self._risks(link, info)
        if risks and require_durable:
            raise ConfigError(
                f"require_durable: {'; '.join(risks)} (URL {without_password(self.url)})"
            )
        for risk in risks:
            log.info("Redis at %s: %s", without_password(self.url), risk)

    async def _risks(self, link: Link, info: dict[str, str]) -> list[str]:
        risks = []
        if info.get("aof_enabled") == "0":
            risks.append(
                "appendonly is off: a crash of the server loses what came since its last save"
            )
        policy = await self._setting(link, _EVICTING)
        if policy and policy != "noeviction" and info.get("maxmemory", "0") != "0":
            risks.append(f"maxmemory-policy is {policy}: jobs may be evicted; set it to noeviction")
        if policy and policy.startswith("allkeys") and info.get("maxmemory", "0") == "0":
            risks.append(f"maxmemory-policy is {policy}: with a maxmemory, jobs would be evicted")
        fsync = await self._setting(link, "appendfsync")
        if info.get("aof_enabled") == "1" and fsync == "no":
            risks.append("appendfsync is no: a power cut loses what the system had not yet written")
        return risks

    async def _setting(self, link: Link, name: str) -> str | None:
        try:
            reply = await link.call("CONFIG", "GET", name)
        except StoreError:
            # Hosted servers hide CONFIG; INFO has told what it can.
            return None
        return reply[1].decode() if len(reply) > 1 else None


def _check_parts(url: str) -> None:
    """Refuse what would be ignored, or would change how we talk to the server."""
    parts = urlsplit(url)
    shown = without_password(url)
    if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
        raise ConfigError(f"the Redis URL {shown!r} names no database: after the host comes /0")
    for name in parse_qs(parts.query):
        if name not in _QUERY and not name.startswith("ssl_"):
            raise ConfigError(
                f"the Redis URL {shown!r} has an option {name!r}; it can have "
                f"{', '.join(sorted(_QUERY))} and ssl_…"
            )


def _parsed(info: Any) -> dict[str, str]:
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
