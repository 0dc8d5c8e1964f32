"""What a Redis URL may say behind its `?`: checked without the driver, when an app is declared."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from headrace.core.address import split_url, without_password
from headrace.errors import ConfigError

SOCKET_TIMEOUT = 10.0
CONNECT_TIMEOUT = 5.0
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
