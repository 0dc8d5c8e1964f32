"""Which server to talk to: its URL, and the connections to it."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.core.address import as_redis, check_url, split_url, without_password
from headrace.core.confirming import Confirming
from headrace.core.version import VERSION
from headrace.errors import ConfigError, StoreUnavailable
from headrace.store.redis.connection import sentinel
from headrace.store.redis.connection.cluster import SCHEMES as CLUSTER_SCHEMES
from headrace.store.redis.connection.cluster import Cluster, pool_of
from headrace.store.redis.connection.cluster_link import ClusterLink, KeyLink
from headrace.store.redis.connection.confirmation import Confirmation
from headrace.store.redis.connection.credentials import CredentialSource
from headrace.store.redis.connection.inspection import Inspection, check_disk
from headrace.store.redis.connection.link import Link, LinkSettings
from headrace.store.redis.connection.requests import Abandoned
from headrace.store.redis.connection.url_options import (
    ConnectionTuning,
    tuning_of,
    without_tuning,
)
from headrace.store.values import Description

log = logging.getLogger("headrace.store")


def _driver_info() -> dict[str, Any]:
    """The option that says who connects, for `CLIENT LIST`. Found out once: left to itself, the
    driver looks up its version among all installed packages for each connection."""
    try:
        from redis.driver_info import DriverInfo
    except ImportError:
        # Earlier versions of the driver look it up when they are imported.
        return {}
    return {"driver_info": DriverInfo().add_upstream_driver("headrace", VERSION)}


_OPTIONS: dict[str, Any] = {
    "protocol": 2,
    "socket_timeout": None,
    "socket_read_size": 256 * 1024,
    # The driver must not repeat anything: one xadd() sent twice is two jobs.
    "retry": Retry(NoBackoff(), 0),
    **_driver_info(),
}


class RedisEndpoint:
    """What is behind a URL: one server, the master behind sentinels, or a cluster."""

    def __init__(
        self,
        url: str,
        *,
        confirmation: Confirmation | None = None,
        credential_provider: Any = None,
    ) -> None:
        self.url = url
        self.abandoned = Abandoned()
        self._confirmation = confirmation
        self._cluster: Cluster | None = None
        check_url(url)
        _check_database(as_redis(url))
        tuning = tuning_of(url)
        source = None if credential_provider is None else CredentialSource(credential_provider)
        self.link_settings = LinkSettings(tuning.timeout, source)
        self._make_ready(tuning)
        self._inspection = Inspection(
            without_password(url), confirmation=confirmation, in_cluster=self._cluster is not None
        )

    def _make_ready(self, tuning: ConnectionTuning) -> None:
        """Have the driver read the URL, as what its scheme says."""
        url, shown = as_redis(without_tuning(self.url)), without_password(self.url)
        scheme, options = split_url(url).scheme, {**_OPTIONS, **tuning.driver_options}
        if scheme in sentinel.SCHEMES:
            pool = partial(pool_of, options=options, shown=shown)
            self._pool = sentinel.pool_behind(sentinel.parse(url), pool)
        elif scheme in CLUSTER_SCHEMES:
            self._cluster = Cluster(url, options, self.link_settings)
        else:
            if scheme == "unix":
                options.pop("socket_keepalive")
            self._pool = pool_of(url, options, shown=shown)

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
        return self._plain_link(repeats=repeats)

    def confirmed_link(self) -> Link | None:
        """A link for scripts that return when their writes are confirmed; None without
        confirmation."""
        return None if self._confirmation is None else self._confirming(self._confirmation)

    def confirming_link(self, confirm: Confirming) -> Link:
        """A link for sends that ask for more confirmation than the app does."""
        return self._confirming(Confirmation.of(confirm, self._confirmation))

    def _confirming(self, confirmation: Confirmation) -> Link:
        if self._cluster is not None:
            return ClusterLink(
                self._cluster,
                repeats=False,
                abandoned=self.abandoned,
                confirmation=confirmation,
            )
        return self._plain_link(confirmation=confirmation)

    def link_at(self, key: str) -> Link:
        """A link of one connection, to the node that has `key`: for calls that wait, and to end
        them."""
        if self._cluster is not None:
            return KeyLink(self._cluster, key, abandoned=self.abandoned)
        return self._plain_link()

    def _plain_link(
        self, *, repeats: bool = False, confirmation: Confirmation | None = None
    ) -> Link:
        return Link(
            self.connect,
            repeats=repeats,
            abandoned=self.abandoned,
            confirmation=confirmation,
            settings=self.link_settings,
        )

    async def check(self, link: Link, *, require_durable: bool) -> None:
        """Refuse a server that is too old; say which settings may lose jobs, and refuse those
        under `require_durable`. In a cluster, all masters are checked."""
        shown = without_password(self.url)
        found = await self.describe(link)
        if found.risks and require_durable:
            raise ConfigError(f"require_durable: {'; '.join(found.risks)} (URL {shown})")
        for risk in found.risks:
            log.warning("Redis at %s: %s", shown, risk, extra={"store": shown})
        for sentence in found.unread:
            log.info("Redis at %s: %s", shown, sentence, extra={"store": shown})

    async def describe(self, link: Link) -> Description:
        """What the server is; of a cluster, the masters that were checked last."""
        shown = without_password(self.url)
        self._inspection.unread.clear()
        try:
            if self._cluster is None:
                risks = await self._inspection.inspect(link, shown)
            else:
                risks = await self._inspect_all(self._cluster)
        except StoreUnavailable as error:
            # One sentence: what the driver said is in it.
            error.args = (f"{error} (URL {shown})",)
            raise error from None
        found = self._inspection
        return Description(*found.known_as, tuple(risks), found.unread_sentences)

    async def check_disk(self, link: Link) -> None:
        """Refuse a server, or a master of a cluster, that cannot confirm writes to its disk."""
        if self._cluster is None:
            await check_disk('confirm="disk"', link, without_password(self.url))
            return
        for node in await self._cluster.masters():
            there = Link(partial(self._cluster.connect_to, node), settings=self.link_settings)
            try:
                await check_disk('confirm="disk"', there, str(node))
            finally:
                await there.drop()

    async def _inspect_all(self, cluster: Cluster) -> list[str]:
        risks = []
        for node in await cluster.masters():
            link = Link(partial(cluster.connect_to, node), settings=self.link_settings)
            try:
                risks += [
                    f"node {node}: {risk}"
                    for risk in await self._inspection.inspect(link, str(node))
                ]
            finally:
                await link.drop()
        return risks


def _check_database(url: str) -> None:
    """Refuse a path that would be ignored."""
    parts = split_url(url)
    has_database = parts.scheme != "unix" and parts.scheme not in sentinel.SCHEMES
    if has_database and not re.fullmatch(r"/?\d*", parts.path):
        shown = without_password(url)
        raise ConfigError(f"the Redis URL {shown!r} names no database: after the host comes /0")
