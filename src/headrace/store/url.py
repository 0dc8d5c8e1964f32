"""From a URL to a store."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.core.address import without_password
from headrace.core.clock import Clock
from headrace.errors import ConfigError
from headrace.store.contract import Store

DEFAULT_URL = "sqlite:///headrace.db"
_REDIS = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "rediss+cluster")
_KNOWN = (
    "sqlite:///file.db, memory://, redis://host:port/db, rediss://…, unix:///file.sock, "
    "redis+sentinel://host1,host2/master/db, redis+cluster://host1,host2, rediss+cluster://…"
)


def check_replicas(url: str, confirm_replicas: int) -> int:
    """The number, if the store that `url` names may have replicas."""
    if confirm_replicas and url.startswith(("sqlite:", "memory:")):
        raise ConfigError(
            "confirm_replicas is for Redis: SQLite has no replicas, and its sends return when they "
            "are on disk"
        )
    return confirm_replicas


def open_store(
    url: str,
    *,
    namespace: str,
    crash_limit: int,
    require_durable: bool,
    events: bool,
    clock: Clock,
    confirm_replicas: int = 0,
) -> Store:
    """The store that `url` names, not yet connected. Drivers are imported only when used."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        shown = without_password(url)
        raise ConfigError(f"the store URL {shown!r} cannot be read: {error}") from None
    if scheme in ("sqlite", "memory"):
        from headrace.store.sqlite.store import SqliteStore

        if scheme == "memory" and require_durable:
            raise ConfigError("require_durable: memory:// keeps nothing; use sqlite:///file.db")
        return SqliteStore(
            url, namespace=namespace, crash_limit=crash_limit, events=events, clock=clock
        )
    if scheme in _REDIS:
        from headrace.store.redis.store import RedisStore

        return RedisStore(
            url,
            namespace=namespace,
            crash_limit=crash_limit,
            require_durable=require_durable,
            events=events,
            confirm_replicas=confirm_replicas,
        )
    raise ConfigError(f"unknown store URL {without_password(url)!r}: use one of {_KNOWN}")
