"""Where this machine's user opens a dashboard that is for nobody else.

A browser sends the cookies of 127.0.0.1 to every server there, also to one of another account of
this machine, which could use them. So the dashboard has a host name of its own, below localhost.
"""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from headrace.web.auth.secret import own_host

_LOOPBACKS = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
# Machines without a name server that answers wait for seconds.
_RESOLVER_SECONDS = 1.0
_SHORT = "a session lasts 15 minutes there, for other servers of this machine get its cookie too"


class LocalAddress(NamedTuple):
    """An address to open, and what else its user should know."""

    url: str
    note: str


class OtherLoopback(NamedTuple):
    """The other of 127.0.0.1 and ::1, to which a name below localhost may lead too."""

    socket: socket.socket | None
    """Listens there, on the same port; None if nothing can."""
    is_ours: bool
    """Whether no other program listens there, to whom a browser would send what is ours."""


def listen_beside(listening: socket.socket) -> OtherLoopback:
    """Listen at the other loopback address too; not if this one is none."""
    host, port = listening.getsockname()[:2]
    if host not in _LOOPBACKS:
        return OtherLoopback(None, False)
    (other,) = _LOOPBACKS.keys() - {host}
    try:
        return OtherLoopback(socket.create_server((other, port), family=_LOOPBACKS[other]), True)
    except OSError as error:
        # A machine without IPv6 has nobody there.
        return OtherLoopback(None, error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


def local_address(plain: str, token: str, *, own_name: bool) -> LocalAddress:
    """The address to open, given the one by number, `http://127.0.0.1:8370/…`. With `own_name` the
    dashboard can be reached by its own name too, at all addresses that it leads to."""
    if not own_name:
        return LocalAddress(plain, f"{_SHORT}.")
    before, _, after = plain.partition("://")
    _, _, rest = after.rpartition(":")
    own = f"{before}://{own_host(token)}:{rest}"
    if resolves_local_names():
        return LocalAddress(own, "")
    return LocalAddress(plain, f"{_SHORT}; in a browser that finds it, 30 days here: {own}")


def resolves_local_names() -> bool:
    """Whether this machine finds names below localhost, and finds itself."""
    # Another name than the real one: it may be sent to a name server.
    name, found = f"headrace-{secrets.token_hex(4)}.localhost", list[str]()

    def ask() -> None:
        with suppress(OSError):
            found.extend(str(each[4][0]) for each in socket.getaddrinfo(name, None))

    asking = threading.Thread(target=ask, name="headrace-resolver", daemon=True)
    asking.start()
    asking.join(_RESOLVER_SECONDS)
    answers = tuple(found)
    return bool(answers) and all(ip_address(each).is_loopback for each in answers)
