"""Check the Host header: any web site can point its own name at this server (DNS rebinding)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from headrace.errors import ConfigError

_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", re.ASCII)


class AllowedHosts:
    """The Host headers that are answered: IP addresses, names that no web site can have (localhost,
    names without a dot), this machine's name, the name listened at, and `allowed` ones.
    `*.shop.example` allows all names below it, `*` every name."""

    def __init__(self, served: str, allowed: Iterable[str] = ()) -> None:
        self._allowed = {_checked(name) for name in allowed}
        self._known = {served.lower(), socket.gethostname().lower()}

    def allows(self, header: str | None) -> bool:
        """Whether a request with this Host header is answered; programs may send none."""
        if header is None or "*" in self._allowed:
            return True
        name = _without_port(header.strip().lower()).rstrip(".")
        return (
            _is_address(name)
            or "." not in name
            or name.endswith(".localhost")
            or name in self._known
            or name in self._allowed
            or any(f"*.{parent}" in self._allowed for parent in _parents(name))
        )


def _checked(name: str) -> str:
    found = name.strip().lower().rstrip(".")
    if not _NAME.fullmatch(found):
        raise ConfigError(
            f"{name!r} is no name of a host: say shop.example, *.shop.example, or * for all"
        )
    return found


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    if not name or not port.isdecimal():
        name = host
    return name.removeprefix("[").removesuffix("]")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _parents(name: str) -> Iterable[str]:
    while "." in name:
        name = name.partition(".")[2]
        yield name
