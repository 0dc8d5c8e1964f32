"""Which server to talk to, and what its settings mean for the jobs."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.core.address import check_url, without_password
from headrace.errors import ConfigError, StoreError, StoreMismatch, StoreUnavailable
from headrace.store.redis.connection import sentinel
from headrace.store.redis.connection.cluster import SCHEMES as CLUSTER_SCHEMES
from headrace.store.redis.connection.cluster import Cluster, pool_of
from headrace.store.redis.connection.cluster_link import ClusterLink, KeyLink
from headrace.store.redis.connection.confirmation import Confirmation
from headrace.store.redis.connection.errors import Refused
from headrace.store.redis.connection.link import Link
from headrace.store.redis.connection.requests import Abandoned
from headrace.store.redis.connection.risks import of_eviction, of_replication
from headrace.store.values import Description

log = logging.getLogger("headrace.store")

MIN_VERSION = (7, 0)
_TELLS_OF_DISK = (7, 2)
_QUERY = {"client_name", "db", "password", "username"}
_EVICTING = "maxmemory-policy"
_REPLICAS = "min-replicas-to-write"
_OPTIONS: dict[str, Any] = {
    "protocol": 2,
    "socket_timeout": None,
    "socket_connect_timeout": 5.0,
    "socket_keepalive": True,
    "socket_read_size": 256 * 1024,
    # One xadd() sent twice is two jobs: nothing is repeated behind our back.
    "retry": Retry(NoBackoff(), 0),
}
_SOCKET_OPTIONS = {name: it for name, it in _OPTIONS.items() if name != "socket_keepalive"}


class RedisEndpoint:
    """What is behind a URL: one server, the master that sentinels tell of, or a cluster."""

    def __init__(self, url: str, *, confirmation: Confirmation | None = None) -> None:
        self.url = url
        self.abandoned = Abandoned()
        self._confirmation = confirmation
        self._cluster: Cluster | None = None
        self._known_as = ("Redis", "")
        self._unread: dict[str, None] = {}
        """Settings that matter and that this user may not read."""
        check_url(url)
        scheme = urlsplit(url).scheme
        _check_parts(url)
        if scheme in sentinel.SCHEMES:
            pool = partial(pool_of, options=_OPTIONS, shown=without_password(url))
            self._pool = sentinel.pool_behind(sentinel.parse(url), pool)
        elif scheme in CLUSTER_SCHEMES:
            self._cluster = Cluster(url, _OPTIONS)
        else:
            options = _SOCKET_OPTIONS if scheme == "unix" else _OPTIONS
            self._pool = pool_of(url, options, shown=without_password(url))

    @property
    def reads_span(self) -> bool:
        """Whether one command may be about keys of several queues."""
        return self._cluster is None

    def connect(self) -> AbstractConnection:
        """A connection, not yet made, to the server; in a cluster to any node."""
        if self._cluster is not None:
            return self._cluster.connect()
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    def link(self, *, repeats: bool = False) -> Link:
        """A link for scripts and for commands that say which key they are about."""
        if self._cluster is not None:
            return ClusterLink(self._cluster, repeats=repeats, abandoned=self.abandoned)
        return Link(self.connect, repeats=repeats, abandoned=self.abandoned)

    def confirmed_link(self) -> Link | None:
        """A link for scripts that return when what they wrote is confirmed; None if it need not
        be."""
        confirmation = self._confirmation
        if confirmation is None:
            return None
        if self._cluster is not None:
            return ClusterLink(
                self._cluster,
                repeats=False,
                abandoned=self.abandoned,
                confirmation=confirmation,
            )
        return Link(self.connect, abandoned=self.abandoned, confirmation=confirmation)

    def link_at(self, key: str) -> Link:
        """A link of one connection, to wherever `key` is: for calls that wait, and to end them."""
        if self._cluster is not None:
            return KeyLink(self._cluster, key, abandoned=self.abandoned)
        return Link(self.connect, abandoned=self.abandoned)

    async def check(self, link: Link, *, require_durable: bool) -> None:
        """Refuse a server that is too old; say which settings may lose jobs, and refuse those
        under `require_durable`. In a cluster, all masters are looked at."""
        shown = without_password(self.url)
        found = await self.describe(link)
        if found.risks and require_durable:
            raise ConfigError(f"require_durable: {'; '.join(found.risks)} (URL {shown})")
        for risk in found.risks:
            log.warning("Redis at %s: %s", shown, risk)
        for sentence in found.unread:
            log.info("Redis at %s: %s", shown, sentence)

    async def describe(self, link: Link) -> Description:
        """What it is; of a cluster, what the masters are that were looked at last."""
        shown = without_password(self.url)
        self._unread.clear()
        try:
            if self._cluster is None:
                risks = await self._inspect(link, shown)
            else:
                risks = await self._inspect_all(self._cluster)
        except StoreUnavailable as error:
            kind = Refused if isinstance(error, Refused) else StoreUnavailable
            raise kind(f"{error} (URL {shown})") from error
        return Description(*self._known_as, tuple(risks), tuple(map(_may_not_read, self._unread)))

    async def _inspect_all(self, cluster: Cluster) -> list[str]:
        risks = []
        for node in await cluster.masters():
            link = Link(partial(cluster.connect_to, node))
            try:
                risks += [f"node {node}: {risk}" for risk in await self._inspect(link, str(node))]
            finally:
                await link.drop()
        return risks

    async def _inspect(self, link: Link, shown: str) -> list[str]:
        info = _parsed(await link.call("INFO", "everything"))
        version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
        if version < MIN_VERSION:
            raise StoreMismatch(
                f"Redis {info.get('redis_version')} at {shown} is too old: "
                "Headrace needs Redis 7.0 or newer, or Valkey"
            )
        self._known_as = _known_as(info)
        if self._confirmation is not None and self._confirmation.on_disk:
            _check_disk(info, version, shown)
        if self._cluster is None and info.get("cluster_enabled") == "1":
            raise ConfigError(
                f"the Redis server at {shown} is part of a cluster: write redis+cluster://host:port"
            )
        return await self._risks(link, info)

    async def _risks(self, link: Link, info: dict[str, str]) -> list[str]:
        risks = []
        if info.get("aof_enabled") == "0":
            risks.append(
                "appendonly is off: a crash of the server loses what came since its last save; set "
                "appendonly yes"
            )
        policy = info.get("maxmemory_policy") or await self._setting(link, _EVICTING)
        risks += of_eviction(policy or "", int(info.get("maxmemory", "0")))
        risks += await self._replication_risks(link, info)
        if info.get("aof_enabled") == "1" and await self._setting(link, "appendfsync") == "no":
            risks.append("appendfsync is no: a power cut loses what the system had not yet written")
        return risks

    async def _replication_risks(self, link: Link, info: dict[str, str]) -> list[str]:
        replicas, wanted = int(info.get("connected_slaves", "0")), "0"
        confirmed = self._confirmation.replicas if self._confirmation else 0
        if replicas < confirmed:
            return [
                f"it has {replicas} replicas, and confirm_replicas is {confirmed}: sends will fail"
            ]
        if replicas and "min_slaves_good_slaves" in info:
            # It is there if the setting is; only CONFIG has the number.
            wanted = await self._setting(link, _REPLICAS) or ""
            if not wanted:
                log.info(
                    "Redis at %s: %s could not be read; it should be %d, as many as there are "
                    "replicas",
                    *(without_password(self.url), _REPLICAS, replicas),
                )
                return []
        return of_replication(replicas, int(wanted), confirmed)

    async def _setting(self, link: Link, name: str) -> str | None:
        try:
            reply = await link.call("CONFIG", "GET", name)
        except StoreError:
            # Hosted servers hide CONFIG, and so does the user that the documents advise.
            self._unread[name] = None
            return None
        return reply[1].decode() if len(reply) > 1 else None


def _check_disk(info: dict[str, str], version: tuple[int, ...], shown: str) -> None:
    """Refuse a server that cannot tell when a write is on its disk."""
    if version < _TELLS_OF_DISK:
        raise ConfigError(
            f"confirm_disk needs Redis 7.2 or newer, or Valkey; the server at {shown} is "
            f"{info.get('redis_version')}"
        )
    if info.get("aof_enabled") == "0":
        raise ConfigError(f"confirm_disk needs appendonly, which is off at {shown}: turn it on")


def _check_parts(url: str) -> None:
    """Refuse what would be ignored, or would change how we talk to the server."""
    parts = urlsplit(url)
    shown = without_password(url)
    has_sentinels = parts.scheme in sentinel.SCHEMES
    has_database = parts.scheme != "unix" and not has_sentinels
    if has_database and not re.fullmatch(r"/?\d*", parts.path):
        raise ConfigError(f"the Redis URL {shown!r} names no database: after the host comes /0")
    known = {"client_name", *sentinel.OPTIONS} if has_sentinels else _QUERY
    for option in filter(None, parts.query.split("&")):
        name, equals, _ = option.partition("=")
        if name not in known and not name.startswith("ssl_"):
            # Without a value it may be anything, even a password.
            called = f"option {name!r}" if equals else "option without a value"
            raise ConfigError(
                f"the Redis URL {shown!r} has an {called}; it can have "
                f"{', '.join(sorted(known))} and ssl_…"
            )


def _may_not_read(setting: str) -> str:
    return f"{setting} could not be read, as this user may not CONFIG GET: see to it on the server"


def _known_as(info: dict[str, str]) -> tuple[str, str]:
    """Kind and version. Valkey tells the version of Redis that it can stand in for, too."""
    if "valkey_version" in info:
        return "Valkey", info["valkey_version"]
    return "Redis", info.get("redis_version", "")


def _parsed(info: Any) -> dict[str, str]:
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
