"""A small HTTP server in a thread, for those who scrape and probe."""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.exposition.allowed_hosts import Hosts

log = logging.getLogger("headrace.metrics")

_PATIENCE = 10.0
_MOST_AT_ONCE = 64
_NOT_OURS = (
    b"this is not served under that name: allow it with --metrics-allow-host, or ask by address\n"
)


class Page(NamedTuple):
    """What is answered."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    encoding: str = ""
    """`gzip`, or empty."""


Answer = Callable[[Mapping[str, str]], Page]
"""Makes the page of a path; given the headers of the request, their names in small letters."""


class Exposition:
    """Serves some paths, from threads of its own. The port is bound when it is made: one that is
    taken is told before any work begins."""

    def __init__(
        self, host: str, port: int, answers: Mapping[str, Answer], allowed: Iterable[str] = ()
    ) -> None:
        """`allowed` are further names by which it may be asked; see `Hosts`."""
        hosts = Hosts(host, allowed)
        try:
            self._server = _server_at(host, port, answers, hosts)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"nothing can be served on port {port} of {host} ({error}): is it taken? Choose "
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
    host: str, port: int, answers: Mapping[str, Answer], hosts: Hosts
) -> ThreadingHTTPServer:
    (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True
        _room = threading.BoundedSemaphore(_MOST_AT_ONCE)

        def process_request(self, request: Any, client_address: Any) -> None:
            if not self._room.acquire(blocking=False):
                log.warning("a request of %s was refused: too many at once", client_address)
                self.shutdown_request(request)
                return
            super().process_request(request, client_address)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                self._room.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            # Whoever asked has gone before the answer; nothing to make a noise about.
            log.debug("a request of %s was not answered", client_address, exc_info=True)

    class Handler(_Handler):
        pages = answers
        known = hosts

    return Server((host, port), Handler)


class _InTime(io.RawIOBase):
    """What comes in at a socket until a moment, however slowly: then it is as if nothing came."""

    def __init__(self, incoming: socket.socket, seconds: float) -> None:
        self._socket = incoming
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come to its end in time")
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Answer] = {}
    known: Hosts
    server_version = "headrace"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_InTime(self.connection, _PATIENCE))

    def do_GET(self) -> None:
        self._send(self._page())

    def do_HEAD(self) -> None:
        self._send(self._page(), with_body=False)

    def _page(self) -> Page:
        # Whoever answers takes as long as it takes, and whoever reads has time again.
        self.connection.settimeout(_PATIENCE)
        if not self.known.answers(self.headers.get("host")):
            return Page(_NOT_OURS, status=403)
        answer = self.pages.get(self.path.partition("?")[0])
        if answer is None:
            return Page(f"here are {', '.join(self.pages)}\n".encode(), status=404)
        try:
            return answer({name.lower(): it for name, it in self.headers.items()})
        except Exception:
            log.exception("%s could not be answered", self.path)
            return Page(b"this could not be answered: see the log\n", status=500)

    def _send(self, page: Page, *, with_body: bool = True) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        if page.encoding:
            self.send_header("Content-Encoding", page.encoding)
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
