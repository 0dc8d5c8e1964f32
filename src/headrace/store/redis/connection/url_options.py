"""What a Redis URL may say behind its `?`: checked without the driver, when an app is declared."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from headrace.core.address import split_url, without_password
from headrace.errors import ConfigError

SOCKET_TIMEOUT = 10.0
CONNECT_TIMEOUT = 5.0
_MOST_PORTS = 65_535
SENTINEL = ("sentinel_username", "sentinel_password", "sentinel_tls")
_TLS = (
    *("ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile"),
    *("ssl_check_hostname", "ssl_ciphers", "ssl_exclude_verify_flags", "ssl_include_verify_flags"),
    *("ssl_keyfile", "ssl_min_version", "ssl_password"),
)
# There is no pool to bound: see docs/decisions/0054-connections.md.
_POOL = ("max_connections", "pool_size", "min_idle")
_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class ConnectionTuning(NamedTuple):
    """How long servers may take, and how silent connections are kept."""

    timeout: float = SOCKET_TIMEOUT
    """Seconds within which a request is answered."""
    connect_timeout: float = CONNECT_TIMEOUT
    keepalive: bool = True
    keepalive_options: Mapping[int, int] = {}
    """By the number of the socket option."""

    @property
    def driver_options(self) -> dict[str, Any]:
        """Arguments for a connection over TCP."""
        found: dict[str, Any] = {
            "socket_connect_timeout": self.connect_timeout,
            "socket_keepalive": self.keepalive,
        }
        if self.keepalive_options:
            found["socket_keepalive_options"] = dict(self.keepalive_options)
        return found


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(text)
    return int(text)


def _truth(text: str) -> bool:
    try:
        return _TRUTH[text.lower()]
    except KeyError:
        raise ValueError(text) from None


_SECONDS = (_seconds, "seconds, above 0")
_WHOLE_SECONDS = (_count, "whole seconds, 1 or more")
_TUNING: dict[str, tuple[Callable[[str], Any], str]] = {
    "socket_timeout": _SECONDS,
    "socket_connect_timeout": _SECONDS,
    "socket_keepalive": (_truth, "yes or no"),
    "keepalive_idle": _WHOLE_SECONDS,
    "keepalive_interval": _WHOLE_SECONDS,
    "keepalive_count": (_count, "a whole number, 1 or more"),
}
_SOCKET_OPTIONS = {
    "keepalive_idle": "TCP_KEEPIDLE",
    "keepalive_interval": "TCP_KEEPINTVL",
    "keepalive_count": "TCP_KEEPCNT",
}


def tuning_of(url: str) -> ConnectionTuning:
    """What the options of a Redis URL say; `ConfigError` if one is unknown, or has a value that it
    cannot have."""
    known = _known(split_url(url).scheme)
    found: dict[str, Any] = {}
    for option in filter(None, split_url(url).query.split("&")):
        name, equals, value = option.partition("=")
        if name not in known:
            raise _unknown(url, name if equals else "", known)
        if name in found:
            raise ConfigError(f"the Redis URL {without_password(url)!r} has {name!r} twice")
        found[name] = _read(url, name, unquote_plus(value))
    idle = {
        getattr(socket, it): found[name] for name, it in _SOCKET_OPTIONS.items() if name in found
    }
    keepalive = found.get("socket_keepalive", True)
    if idle and not keepalive:
        raise ConfigError(
            f"the Redis URL {without_password(url)!r} has socket_keepalive=no and keepalive_ "
            "options: leave out one or the other"
        )
    return ConnectionTuning(
        found.get("socket_timeout", SOCKET_TIMEOUT),
        found.get("socket_connect_timeout", CONNECT_TIMEOUT),
        keepalive,
        idle,
    )


def check_server(url: str) -> None:
    """Refuse a Redis URL that names no server, or a database that there cannot be."""
    parts, shown = split_url(url), without_password(url)
    hosts = [host.strip() for host in parts.netloc.rpartition("@")[2].split(",")]
    if parts.scheme == "unix":
        if hosts != [""] or not parts.path.strip("/"):
            raise ConfigError(f"the Redis URL {shown!r} names no file: write unix:///file.sock")
        return
    for port in (found[1] for host in hosts if (found := re.search(r":(\d+)$", host))):
        if not 0 < int(port) <= _MOST_PORTS:
            raise ConfigError(
                f"the Redis URL {shown!r} has port {port}: ports go from 1 to {_MOST_PORTS}"
            )
    kind = parts.scheme.partition("+")[2]
    if kind == "sentinel":
        master, _, database = parts.path.strip("/").partition("/")
        if not any(hosts) or not master or not (database or "0").isdecimal():
            raise ConfigError(
                f"the URL {shown!r} does not name sentinels and a master: write "
                f"{parts.scheme}://host1,host2/master/0"
            )
        return
    if not re.fullmatch(r"/?\d*", parts.path):
        raise ConfigError(f"the Redis URL {shown!r} names no database: after the host comes /0")
    _check_hosts(parts.scheme, shown, hosts, parts.path.strip("/"))


def _check_hosts(scheme: str, shown: str, hosts: list[str], database: str) -> None:
    if scheme.endswith("+cluster"):
        if not all(hosts):
            raise ConfigError(
                f"the Redis URL {shown!r} does not name nodes of a cluster (a host is missing): "
                f"write {scheme}://host1:port,host2:port"
            )
        if int(database or 0):
            raise ConfigError(
                f"the Redis URL {shown!r} cannot be used: a cluster has only database 0"
            )
    elif len(hosts) > 1:
        raise ConfigError(
            f"the Redis URL {shown!r} names several servers: for a cluster write "
            f"{scheme}+cluster://…, for sentinels {scheme}+sentinel://…/master/0"
        )


def without_tuning(url: str) -> str:
    """The URL without the options that the driver does not know, or takes another way."""
    before, mark, query = url.partition("?")
    rest = "&".join(each for each in query.split("&") if each.partition("=")[0] not in _TUNING)
    return f"{before}{mark}{rest}" if rest else before


def _known(scheme: str) -> list[str]:
    has_sentinels = scheme.endswith("+sentinel")
    own = ("client_name", *SENTINEL) if has_sentinels else ("client_name", "db", "password")
    user = () if has_sentinels else ("username",)
    tuning = [name for name in _TUNING if scheme != "unix" or "keepalive" not in name]
    return sorted((*own, *user, *tuning, *_TLS))


def _unknown(url: str, name: str, known: list[str]) -> ConfigError:
    shown = without_password(url)
    if name in _POOL:
        return ConfigError(
            f"the Redis URL {shown!r} has an option {name!r}, and Headrace has no pool: a process "
            "has about three connections, and a worker one more per blocking read"
        )
    # Without a value it may be anything, even a password.
    called = f"option {name!r}" if name else "option without a value"
    return ConfigError(f"the Redis URL {shown!r} has an {called}; it can have {', '.join(known)}")


def _read(url: str, name: str, value: str) -> Any:
    if name not in _TUNING:
        return value
    read, wanted = _TUNING[name]
    try:
        return read(value)
    except ValueError:
        raise ConfigError(
            f"the Redis URL {without_password(url)!r}: {name} must be {wanted}, not {value!r}"
        ) from None
