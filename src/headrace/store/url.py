"""From a URL to a store."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

from headrace.core.address import check_url, sqlite_options, sqlite_path, without_password
from headrace.core.clock import Clock, SystemClock
from headrace.core.job.history_rules import HistoryRules
from headrace.errors import ConfigError
from headrace.store.contract import Store

DEFAULT_URL = "sqlite:///headrace.db"
_SERVERS = ("redis", "rediss", "valkey", "valkeys")
_REDIS = ("unix", *(f"{it}{kind}" for it in _SERVERS for kind in ("", "+sentinel", "+cluster")))
_KNOWN = (
    "sqlite:///file.db, memory://, redis://host:port/db, rediss://…, unix:///file.sock, "
    "redis+sentinel://host1,host2/master/db, rediss+sentinel://…, redis+cluster://host1,host2, "
    "rediss+cluster://…, or valkey:// and valkeys:// for redis:// and rediss://"
)


def scheme_of(url: str) -> str:
    """The scheme of a store's URL, or a `ConfigError` that lists those there are."""
    # Not by the library, whose errors quote what they cannot read.
    scheme = url.partition(":")[0].lower()
    if "://" not in url:
        # Not shown: it may be a password, or end with one.
        raise ConfigError(f"the store's URL has no '://': use one of {_KNOWN}")
    if scheme not in ("sqlite", "memory", *_REDIS):
        raise ConfigError(f"unknown store URL {without_password(url)!r}: use one of {_KNOWN}")
    return scheme


def check_store_url(url: str) -> None:
    """Refuse a scheme or an option that no store knows; the sentence lists those there are. Refuse
    a store whose driver is not installed."""
    scheme = scheme_of(url)
    if scheme not in ("sqlite", "memory"):
        _check_redis_driver(url)
        check_url(url)
        from headrace.store.redis.connection.url_options import check_server, tuning_of

        tuning_of(url)
        check_server(url)
    elif scheme == "memory" and "?" in url:
        raise ConfigError(
            f"the URL {without_password(url)!r} has options: memory:// URLs take none; write "
            "memory://"
        )
    else:
        sqlite_options(url)
        sqlite_path(url)


def _check_redis_driver(url: str) -> None:
    missing = [name for name in ("redis", "hiredis") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the store {without_password(url)} needs {' and '.join(missing)}: "
            "pip install 'headrace[redis]'"
        )


class CredentialProvider(Protocol):
    """What gives connections a password, or a user and a password. Those of redis-py do."""

    def get_credentials(self) -> tuple[str] | tuple[str, str]: ...


def check_credential_provider(url: str, provider: object) -> None:
    """Refuse one that would not be asked, or cannot be."""
    if provider is None:
        return
    if isinstance(provider, type) or not callable(getattr(provider, "get_credentials", None)):
        raise ConfigError(
            "credential_provider must have a method get_credentials() that returns (user, "
            f"password), not be {provider!r}"
        )
    if url.startswith(("sqlite:", "memory:")):
        raise ConfigError("credential_provider is for Redis: SQLite asks for no password")
    query = url.partition("?")[2].split("&")
    named = any(each.startswith(("username=", "password=")) for each in query)
    if named or "@" in url.partition("://")[2].partition("?")[0].partition("/")[0]:
        raise ConfigError(
            f"the Redis URL {without_password(url)!r} has a user or a password, and there is a "
            "credential_provider: leave out one or the other"
        )


def check_confirmation(url: str, replicas: int, on_disk: bool) -> None:
    """Refuse what the store that `url` names cannot confirm."""
    for name, wanted in {"confirm_replicas": replicas, "confirm_disk": on_disk}.items():
        if wanted and url.startswith(("sqlite:", "memory:")):
            raise ConfigError(
                f"{name} is for Redis: SQLite has no replicas, and its sends return when they are "
                "on disk"
            )


def check_clock(url: str, clock: Clock) -> None:
    """Refuse a clock that would not be asked."""
    if not isinstance(clock, SystemClock) and not url.startswith(("sqlite:", "memory:")):
        raise ConfigError(
            "clock is for SQLite and memory://: Redis goes by the clock of its server; leave it "
            "out, or use memory:// in tests that move time"
        )


def open_store(
    url: str,
    *,
    namespace: str,
    crash_limit: int,
    require_durable: bool,
    events: bool,
    clock: Clock,
    confirm_replicas: int = 0,
    confirm_disk: bool = False,
    credential_provider: Any = None,
    history_rules: HistoryRules | None = None,
) -> Store:
    """The store that `url` names, not yet connected. Drivers are imported only when used."""
    scheme = scheme_of(url)
    if scheme in ("sqlite", "memory"):
        from headrace.store.sqlite.store import SqliteStore

        if scheme == "memory" and require_durable:
            raise ConfigError("require_durable: memory:// keeps nothing; use sqlite:///file.db")
        return SqliteStore(
            url,
            namespace=namespace,
            crash_limit=crash_limit,
            events=events,
            clock=clock,
            history_rules=history_rules,
        )
    check_url(url)
    from headrace.store.redis.connection.confirmation import Confirmation
    from headrace.store.redis.store import RedisStore

    confirms = confirm_replicas or confirm_disk
    return RedisStore(
        url,
        namespace=namespace,
        crash_limit=crash_limit,
        require_durable=require_durable,
        events=events,
        confirmation=Confirmation(confirm_replicas, on_disk=confirm_disk) if confirms else None,
        credential_provider=credential_provider,
        history_rules=history_rules,
    )
