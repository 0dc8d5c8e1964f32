"""A small HTTP server in a thread, for scrapers and probes."""

from __future__ import annotations

import io
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, NamedTuple

from headrace.errors import ConfigError

log = logging.getLogger("headrace.metrics")

_TIMEOUT = 10.0
_MOST_AT_ONCE = 64
_HOST_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", re.ASCII)
_HOST_NOT_ALLOWED = (
    b"this host name is not allowed: allow it with --metrics-allow-host, or use an address\n"
)


class HttpResponse(NamedTuple):
    """What an endpoint returns."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    encoding: str = ""
    """`gzip`, or empty."""


Endpoint = Callable[[Mapping[str, str]], HttpResponse]
"""Answers requests for one path, given their headers with lower-case names."""


class ExpositionServer:
    """Serves some paths from threads of its own. The constructor binds the port, so that a taken
    one is an error before any work begins."""

    def __init__(
        self, host: str, port: int, endpoints: Mapping[str, Endpoint], allowed: Iterable[str] = ()
    ) -> None:
        """`allowed` are further host names to answer; see `AllowedHosts`."""
        hosts = AllowedHosts(host, allowed)
        try:
            self._server = _server_at(host, port, endpoints, hosts)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot serve on port {port} of {host} ({error}): is it taken? Choose "
                "another with --metrics-port, or --metrics-host"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="headrace-exposition", daemon=True
        )

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else host
        return f"http://{shown!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _server_at(
    host: str, port: int, endpoints: Mapping[str, Endpoint], hosts: AllowedHosts
) -> ThreadingHTTPServer:
    (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    class BoundedHTTPServer(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True
        _room = threading.BoundedSemaphore(_MOST_AT_ONCE)

        def process_request(self, request: Any, client_address: Any) -> None:
            if not self._room.acquire(blocking=False):
                log.warning(
                    "a request from %s was refused: too many at once",
                    client_address,
                    extra={"client": client_address},
                )
                self.shutdown_request(request)
                return
            super().process_request(request, client_address)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                self._room.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            # The client has gone before the answer, which is not worth a warning.
            log.debug(
                "a request from %s was not answered",
                client_address,
                exc_info=True,
                extra={"client": client_address},
            )

    class BoundHandler(_RequestHandler):
        by_path = endpoints
        allowed_hosts = hosts

    return BoundedHTTPServer((host, port), BoundHandler)


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the data comes; then `TimeoutError`."""

    def __init__(self, incoming: socket.socket, seconds: float) -> None:
        self._socket = incoming
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class _RequestHandler(BaseHTTPRequestHandler):
    by_path: Mapping[str, Endpoint] = {}
    allowed_hosts: AllowedHosts
    server_version = "headrace"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, _TIMEOUT))

    def do_GET(self) -> None:
        self._send(self._response())

    def do_HEAD(self) -> None:
        self._send(self._response(), with_body=False)

    def _response(self) -> HttpResponse:
        # The endpoint may take its time; the client then has the whole timeout to read.
        self.connection.settimeout(_TIMEOUT)
        if not self.allowed_hosts.allows(self.headers.get("host")):
            return HttpResponse(_HOST_NOT_ALLOWED, status=403)
        endpoint = self.by_path.get(self.path.partition("?")[0])
        if endpoint is None:
            return HttpResponse(f"here are {', '.join(self.by_path)}\n".encode(), status=404)
        try:
            return endpoint({name.lower(): it for name, it in self.headers.items()})
        except Exception:
            log.exception("%s could not be answered", self.path, extra={"path": self.path})
            return HttpResponse(b"this could not be answered: see the log\n", status=500)

    def _send(self, response: HttpResponse, *, with_body: bool = True) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        if response.encoding:
            self.send_header("Content-Encoding", response.encoding)
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args, extra={"client": self.client_address})


class AllowedHosts:
    """The Host headers that are answered, since any web site can point its own name at this server
    (DNS rebinding): IP addresses, names that no web site can have (localhost,
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
    if not _HOST_NAME.fullmatch(found):
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
