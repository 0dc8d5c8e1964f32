"""A small HTTP server in a thread, for those who scrape and probe."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from headrace.errors import ConfigError

log = logging.getLogger("headrace.telemetry")

_PATIENCE = 10.0


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

    def __init__(self, host: str, port: int, answers: Mapping[str, Answer]) -> None:
        try:
            self._server = _server_at(host, port, answers)
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


def _server_at(host: str, port: int, answers: Mapping[str, Answer]) -> ThreadingHTTPServer:
    (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            # Whoever asked has gone before the answer; nothing to make a noise about.
            log.debug("a request of %s was not answered", client_address, exc_info=True)

    class Handler(_Handler):
        pages = answers

    return Server((host, port), Handler)


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Answer] = {}
    timeout = _PATIENCE
    server_version = "headrace"
    sys_version = ""

    def do_GET(self) -> None:
        self._send(self._page())

    def do_HEAD(self) -> None:
        self._send(self._page(), with_body=False)

    def _page(self) -> Page:
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
