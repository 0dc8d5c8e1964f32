"""Finding the master that a group of sentinels watches over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec
from redis.asyncio import ConnectionPool
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as Unreachable

from headrace.core.address import split_url, without_password
from headrace.errors import ConfigError
from headrace.store.redis.connection.placed import placed
from headrace.store.redis.connection.tls import PlainConnection, TLSConnection
from headrace.store.redis.connection.url_options import SENTINEL

SCHEMES = ("redis+sentinel", "rediss+sentinel")
_PORT = 26379
_TIMEOUT = 2.0
_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_PATIENCE = {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT}

Pool = Callable[[str], ConnectionPool]


class SentinelTarget(msgspec.Struct, frozen=True):
    """A sentinel URL: the sentinels, the name of the master, and the options for both."""

    sentinels: tuple[tuple[str, int], ...]
    master: str
    server_url: str
    """The URL of a server, with a placeholder as its host."""
    sentinel_url: str

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection to the master is encrypted."""
        return self.server_url.startswith("rediss:")

    def __repr__(self) -> str:
        # Not the URLs: they hold passwords.
        return f"SentinelTarget({self.sentinels!r}, {self.master!r})"


def parse(url: str) -> SentinelTarget:
    """`redis+sentinel://[user:password@]host[:port],host[:port]/master[/db][?options]`. User,
    password and database are the servers'; the sentinels have `sentinel_username` and
    `sentinel_password`. Under `rediss+sentinel://` both are talked to over TLS; `sentinel_tls` says
    otherwise for the sentinels. `ssl_…` options are for both."""
    parts = split_url(url)
    credentials, at, hosts = parts.netloc.rpartition("@")
    master, _, db = parts.path.strip("/").partition("/")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    own = {name: options.pop(name) for name in SENTINEL if name in options}
    over_tls = parts.scheme == "rediss+sentinel"
    sentinels_over_tls = _TRUTH.get(own.get("sentinel_tls", "yes" if over_tls else "no").lower())
    if sentinels_over_tls is None:
        shown = without_password(url)
        raise ConfigError(f"the URL {shown!r}: sentinel_tls is yes or no")
    sentinels = _addresses(hosts)
    if not sentinels or not master or not (db or "0").isdecimal():
        raise ConfigError(
            f"the URL {without_password(url)!r} does not name sentinels and a master: write "
            "redis+sentinel://host1,host2/master/0"
        )
    tls = {name: it for name, it in options.items() if name.startswith("ssl_")}
    if tls and not over_tls and not sentinels_over_tls:
        raise ConfigError(
            f"the URL {without_password(url)!r} has ssl_ options and no TLS: write "
            "rediss+sentinel://, or sentinel_tls=yes"
        )
    return SentinelTarget(
        sentinels,
        unquote(master),
        _url(over_tls, f"{credentials}{at}", db or "0", options, tls),
        _url(sentinels_over_tls, _credentials(own), "0", {}, tls),
    )


def _addresses(hosts: str) -> tuple[tuple[str, int], ...]:
    """The sentinels; none if one of them is not an address."""
    found = []
    for host in hosts.split(","):
        address = urlsplit(f"//{host.strip()}")
        try:
            name, port = address.hostname, address.port or _PORT
        except ValueError:
            return ()
        if not name:
            return ()
        found.append((name, port))
    return tuple(found)


def _credentials(own: Mapping[str, str]) -> str:
    name, password = own.get("sentinel_username", ""), own.get("sentinel_password", "")
    if name and not password:
        raise ConfigError("the sentinels' URL has a sentinel_username and no sentinel_password")
    return f"{quote(name, safe='')}:{quote(password, safe='')}@" if password else ""


def _url(
    over_tls: bool, credentials: str, db: str, options: Mapping[str, str], tls: Mapping[str, str]
) -> str:
    kept = {name: it for name, it in options.items() if name not in tls}
    query = urlencode({**kept, **(tls if over_tls else {})})
    return f"{'rediss' if over_tls else 'redis'}://{credentials}node/{db}?{query}"


def pool_behind(target: SentinelTarget, pool: Pool) -> ConnectionPool:
    """Connections to the server that is the master when they are opened. After a failover the old
    master answers READONLY or not at all; the connection is dropped, and the next finds the new
    master. `pool` makes the driver's pool for the URL of one server, or raises an error that says
    what is wrong with it."""
    asked = _options(pool(target.sentinel_url))
    sentinels = TLSConnection if target.sentinel_url.startswith("rediss:") else PlainConnection
    ask = ConnectionPool(connection_class=sentinels, **{**asked, **_PATIENCE})
    options = _options(pool(target.server_url))
    return ConnectionPool(
        connection_class=placed(target.is_encrypted),
        place=partial(_find_master, target, ask),
        **options,
    )


def _options(pool: ConnectionPool) -> dict[str, Any]:
    return {name: it for name, it in pool.connection_kwargs.items() if name not in ("host", "port")}


async def _find_master(target: SentinelTarget, asking: ConnectionPool) -> tuple[str, int]:
    """The address of the master, from the first sentinel that knows it."""
    problems: list[str] = []
    errors: list[Exception] = []
    for host, port in target.sentinels:
        sentinel = asking.connection_class(
            **{**asking.connection_kwargs, "host": host, "port": port}
        )
        try:
            await sentinel.connect()  # type: ignore[no-untyped-call]
            await sentinel.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.master)
            found = await sentinel.read_response()
        except (RedisError, OSError) as error:
            problems.append(f"{host}:{port} {_reason(error)}")
            errors.append(error)
            continue
        finally:
            # Not with the driver's client, which leaves a half-refused connection open.
            await sentinel.disconnect(nowait=True)
        if found:
            return found[0].decode(), int(found[1])
        problems.append(f"{host}:{port} does not know it")
    said = f"no sentinel reports where master {target.master!r} is: {'; '.join(problems)}"
    # What is wrong with all of them stays so: the last one stands for them.
    last = errors[-1] if len(errors) == len(problems) else None
    refused = last is not None and all(isinstance(each, AuthenticationError) for each in errors)
    raise (AuthenticationError if refused else Unreachable)(said) from last


def _reason(error: Exception) -> str:
    if isinstance(error, AuthenticationError):
        return f"wants another sentinel_username or sentinel_password ({error})"
    if isinstance(error, ResponseError):
        return f"refuses ({error})"
    return f"does not answer ({error})"
