"""The nodes of a Redis Cluster, and which of them has which slot."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError

from headrace.core.address import masked, split_url, without_password
from headrace.errors import (
    ConfigError,
    StoreError,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
)
from headrace.store.redis.connection.errors import Moved
from headrace.store.redis.connection.link import DEFAULT_SETTINGS, Link, LinkSettings
from headrace.store.redis.connection.placed import Place, placed
from headrace.store.redis.connection.tls import PlainConnection, TLSConnection

SCHEMES = ("redis+cluster", "rediss+cluster")
_PORT = 6379
_ASK_TIMEOUT = 2.0


class ClusterNode(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    return key_slot(key.encode())


class Cluster:
    """The nodes behind a `redis+cluster://` URL, as far as known. Shared by all links, on any event
    loop."""

    def __init__(
        self, url: str, options: Mapping[str, Any], settings: LinkSettings = DEFAULT_SETTINGS
    ) -> None:
        self.link_settings = settings
        self._seeds = _seeds(url)
        self._options = _options(url, options)
        self._tls = url.startswith("rediss")
        self._owners: list[ClusterNode | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._stale = True
        self.nodes: frozenset[ClusterNode] = frozenset()

    def connect(self) -> Connection:
        """A connection to any node that answers; not always the same."""
        return self._connection(self.refresh)

    def connect_to(self, node: ClusterNode) -> Connection:
        async def there() -> ClusterNode:
            return node

        return self._connection(there)

    def connect_for(self, slot: int) -> Connection:
        return self._connection(partial(self.owner, slot))

    async def masters(self) -> list[ClusterNode]:
        """Every node that has slots, as last reported."""
        await self.refresh()
        return sorted({node for node in self._owners if node})

    async def owner(self, slot: int) -> ClusterNode:
        """The node to ask for a slot."""
        if self._stale:
            await self.refresh()
        node = self._owners[slot]
        if node is None:
            self.distrust()
            raise StoreUnavailable(f"Redis: no node of the cluster has slot {slot}")
        return node

    def distrust(self) -> None:
        """Ask the nodes again, before the next use, which of them has which slot."""
        self._stale = True

    def moved(self, moved: Moved) -> None:
        """Follow a redirection: other nodes may not know of it yet."""
        if moved.host in ("", "?"):
            self.distrust()
            return
        node = ClusterNode(moved.host, moved.port)
        self._owners[moved.slot] = node
        self.nodes |= {node}

    async def refresh(self) -> ClusterNode:
        """Ask the nodes in random order for the slots; returns the first node that answers."""
        problems: list[StoreError] = []
        asked = list({*self.nodes, *self._seeds})
        random.shuffle(asked)
        try:
            async with asyncio.timeout(self.link_settings.timeout):
                for node in asked:
                    try:
                        self._learn(node, await self._ask(node))
                    except StoreError as error:
                        problems.append(error)
                    else:
                        return node
        except TimeoutError:
            problems.append(StoreUnavailable(f"no answer within {self.link_settings.timeout:g} s"))
        raise _summed(problems)

    async def _ask(self, node: ClusterNode) -> list[list[Any]]:
        link = Link(partial(self.connect_to, node), settings=self.link_settings)
        try:
            ranges: list[list[Any]] = await link.call("CLUSTER", "SLOTS", timeout=_ASK_TIMEOUT)
        except StoreError as error:
            if "cluster support disabled" in str(error):
                raise StoreMismatch(
                    f"the Redis server at {node} is not part of a cluster: write redis://{node}/0 "
                    "instead"
                ) from error
            raise
        finally:
            await link.drop()
        if not ranges:
            raise StoreUnavailable(f"Redis: node {node} knows of no cluster")
        return ranges

    def _learn(self, teller: ClusterNode, ranges: list[list[Any]]) -> None:
        owners: list[ClusterNode | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        nodes: set[ClusterNode] = set()
        for first, last, *servers in ranges:
            named = [_node(server, teller) for server in servers]
            owners[first : last + 1] = [named[0]] * (last - first + 1)
            nodes.update(node for node in named if node)
        self._owners, self.nodes, self._stale = owners, frozenset(nodes), False

    def _connection(self, place: Place) -> Connection:
        return placed(self._tls)(place=place, **self._options)


def _summed(problems: Sequence[StoreError]) -> StoreError:
    for problem in problems:
        if isinstance(problem, StoreMismatch):
            return problem
    texts = "; ".join(dict.fromkeys(str(problem) for problem in problems))
    refused = bool(problems) and all(isinstance(problem, StoreRefused) for problem in problems)
    kind = StoreRefused if refused else StoreUnavailable
    return kind(f"no node of the cluster reports where the slots are: {texts}")


def _node(server: Sequence[Any], teller: ClusterNode) -> ClusterNode | None:
    """A node in a reply; without a host, it is on the host of the node that replied."""
    host = (server[0] or b"").decode()
    return None if host == "?" else ClusterNode(host or teller.host, int(server[1]))


def _seeds(url: str) -> tuple[ClusterNode, ...]:
    parts = split_url(url)
    hosts = parts.netloc.rpartition("@")[2]
    try:
        return tuple(_seed(host) for host in hosts.split(","))
    except ValueError as error:
        said = masked(str(error), url)
    raise ConfigError(
        f"the Redis URL {without_password(url)!r} does not name nodes of a cluster ({said}): "
        f"write {parts.scheme}://host1:port,host2:port"
    )


def _seed(address: str) -> ClusterNode:
    found = urlsplit(f"//{address.strip()}")
    if not found.hostname:
        raise ValueError("a host is missing")
    return ClusterNode(found.hostname, found.port or _PORT)


def _options(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a connection to any node, without its address."""
    parts = split_url(url)
    credentials, at, _ = parts.netloc.rpartition("@")
    scheme = parts.scheme.removesuffix("+cluster")
    one = f"{scheme}://{credentials}{at}node{parts.path}?{parts.query}"
    found = dict(pool_of(one, options, shown=without_password(url)).connection_kwargs)
    if found.get("db", 0) != 0:
        raise ConfigError(
            f"the Redis URL {without_password(url)!r} cannot be used: a cluster has only database 0"
        )
    for name in ("host", "port", "db"):
        found.pop(name, None)
    return found


_OURS: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: PlainConnection,
    SSLConnection: TLSConnection,
}


def pool_of(url: str, options: Mapping[str, Any], *, shown: str) -> ConnectionPool:
    """The driver's view of a URL of one server."""
    try:
        pool = ConnectionPool.from_url(url, **options)
        pool.connection_class = _OURS.get(pool.connection_class, pool.connection_class)
        # The driver checks the options only here.
        pool.make_connection()  # type: ignore[no-untyped-call]
        return pool
    except (ValueError, TypeError, RedisError) as error:
        said = masked(str(error), url)
    # Outside of the handler: the driver's error may quote a password, and must not be chained.
    raise ConfigError(f"the Redis URL {shown!r} cannot be used: {said}")
