"""URLs of stores and databases: what may be shown of them, and what is refused before a driver
reads it.

A URL is shown by what is known to be harmless in it, never by looking for what is secret: a
password that was pasted in without percent-encoding may turn up as a port, a path, an option or a
fragment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

HIDDEN = "***"
ENCODE = (
    "in a user name or password write # as %23, ? as %3F, / as %2F, @ as %40, : as %3A, "
    "[ as %5B and % as %25"
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HOST = r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::\d{0,5})?"
_HOSTS = re.compile(rf"\s*(?:{_HOST})?(?:\s*,\s*(?:{_HOST})?)*\s*")
_FILES = ("sqlite", "unix")
_DELIMITERS = re.compile(r"[:/?#@&=,;\s]+")
# Below this length only whole words are masked: a password "e" is no reason to mask every "e".
_LONG = 4
# Values of these options are shown; those of all others are not.
_SHOWN_OPTIONS = frozenset(
    (
        *("client_name", "db", "dbname", "host", "hostaddr", "port", "application_name"),
        *("connect_timeout", "target_session_attrs", "sslmode", "sslrootcert", "sslcert", "sslkey"),
        *("ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"),
        *("ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "sentinel_tls"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive"),
        *("keepalive_idle", "keepalive_interval", "keepalive_count", "secure_delete"),
    )
)


class _Parts(NamedTuple):
    scheme: str
    userinfo: str | None
    hosts: str
    path: str
    query: str
    fragment: str | None


def without_password(url: str) -> str:
    """The URL as it may be shown and logged: without user name and password, and without anything
    that may be a piece of one."""
    parts = _split(url)
    if parts is None:
        return HIDDEN
    if _trouble(parts) is not None:
        return f"{parts.scheme}://{HIDDEN}"
    user = "" if parts.userinfo is None else f"{HIDDEN}@"
    query = "&".join(map(_option_shown, parts.query.split("&")))
    return (
        f"{parts.scheme}://{user}{parts.hosts}{parts.path}"
        + (f"?{query}" if parts.query else "")
        + ("" if parts.fragment is None else f"#{HIDDEN}")
    )


def check_url(url: str) -> None:
    """Refuse a URL of a server that does not say clearly where the user name and the password end.
    Drivers would quote pieces of the password in their errors."""
    parts = _split(url)
    trouble = "it has no scheme, such as redis://" if parts is None else _trouble(parts)
    if parts is not None and trouble is None:
        trouble = "it has a '#'" if parts.fragment is not None else _unreadable(url)
    if trouble is not None:
        shown = without_password(url)
        raise ConfigError(f"the URL {shown!r} cannot be read: {trouble}; {ENCODE}")


_VALKEY = re.compile(r"^valkey(?=s?[+:])", re.IGNORECASE)


def as_redis(url: str) -> str:
    """The URL under the scheme that Redis has for it: `redis+cluster://` for `valkey+cluster://`.
    Drivers know no other."""
    return _VALKEY.sub("redis", url)


MEMORY = ":memory:"


_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class SqliteOptions(NamedTuple):
    """What the URL of an SQLite store may say behind its `?`."""

    secure_delete: bool = False
    """Whether what is deleted is overwritten at once."""


DEFAULT_OPTIONS = SqliteOptions()


def sqlite_options(url: str) -> SqliteOptions:
    """`ConfigError` if the URL has an option that is unknown, or a value that it cannot have."""
    _, mark, option = url.partition("?")
    name, _, value = option.partition("=")
    if not mark:
        return DEFAULT_OPTIONS
    if name != "secure_delete" or value.lower() not in _TRUTH:
        raise ConfigError(
            f"the URL {without_password(url)!r} has options that SQLite does not take; it can have "
            "secure_delete=yes or secure_delete=no: write sqlite:///file.db?secure_delete=yes"
        )
    return SqliteOptions(_TRUTH[value.lower()])


def sqlite_path(url: str) -> str:
    """The file that the URL of an SQLite store names, `:memory:` for `memory://`."""
    if url == "memory://":
        return MEMORY
    path = url.partition("?")[0].removeprefix("sqlite:///")
    if not url.startswith("sqlite:///") or path in ("", "/", MEMORY) or {*path} & {"#", "\0"}:
        raise ConfigError(
            f"{without_password(url)!r} is not the URL of an SQLite store: use sqlite:///file.db, "
            "sqlite:////directory/file.db or memory://"
        )
    return path


def masked(text: str, url: str) -> str:
    """A driver's text about a URL, without the parts of the URL that must not be shown."""
    from urllib.parse import unquote

    shown = set(_DELIMITERS.split(without_password(url)))
    rest = url.partition("://")[2] or url
    userinfo = rest.rpartition("@")[0]
    pieces = {userinfo, userinfo.partition(":")[2], *_DELIMITERS.split(rest)}
    pieces |= {unquote(piece) for piece in pieces}
    for piece in sorted(pieces - shown - {""}, key=len, reverse=True):
        if len(piece) < _LONG:
            text = re.sub(rf"(?<!\w){re.escape(piece)}(?!\w)", HIDDEN, text)
        else:
            text = text.replace(piece, HIDDEN)
    return text


def _split(url: str) -> _Parts | None:
    match = _SCHEME.fullmatch(url)
    if match is None:
        return None
    scheme, rest = match.groups()
    rest, has_fragment, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    return _Parts(
        scheme.lower(),
        userinfo if at else None,
        hosts,
        slash + path,
        query,
        fragment if has_fragment else None,
    )


def _trouble(parts: _Parts) -> str | None:
    """What makes it doubtful where the user name and the password of a URL end."""
    is_file = parts.scheme in _FILES and not parts.hosts
    after = (parts.query, parts.fragment or "", "" if is_file else parts.path)
    if any("@" in part for part in after):
        return "there is an '@' behind the host"
    if _HOSTS.fullmatch(parts.hosts) is None:
        return "what should be the host and port is neither"
    return None


def split_url(url: str) -> SplitResult:
    """As `urlsplit`, also for a list of hosts: newer Pythons refuse `[::1]` after another host."""
    from urllib.parse import urlsplit

    scheme, slashes, rest = url.partition("://")
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    if "," not in hosts:
        return urlsplit(url)
    return urlsplit(f"{scheme}{slashes}{rest[len(hosts) :]}")._replace(netloc=hosts)


def _unreadable(url: str) -> str | None:
    try:
        split_url(url)
    except ValueError:
        # What it says quotes what it cannot read.
        return "it has characters that have a meaning of their own in a URL"
    return None


def _option_shown(option: str) -> str:
    name, equals, value = option.partition("=")
    if not equals:
        return HIDDEN if name else ""
    return f"{name}={value if name in _SHOWN_OPTIONS else HIDDEN}"
