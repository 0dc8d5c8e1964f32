"""The dashboard as a server of its own, with a limit on the time that a request may take."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.errors import ConfigError
from headrace.web import dashboard
from headrace.web.auth.local_access import LocalAccess

if TYPE_CHECKING:
    import socket

    from headrace.app import Headrace
    from headrace.web.auth.access import Auth

HEADER_SECONDS = 15.0
# A form may have some megabytes, over a slow connection.
BODY_SECONDS = 120.0
# Below the usual limit of open files per process.
MOST_CONNECTIONS = 800


class TimeoutProtocol(H11Protocol):
    """Closes a connection if the head or the body of a request is not complete in time; refuses
    connections beyond `MOST_CONNECTIONS`."""

    _awaited: object = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._set_timer(h11.IDLE, HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None, 0.0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have come with this one. An idle connection has uvicorn's own
        # keep-alive timeout.
        if self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
            self._update_timer()

    def _update_timer(self) -> None:
        """Start or stop the timer: an unfinished head or body keeps the timer it has."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._set_timer(None, 0.0)
        elif state is h11.IDLE:
            self._set_timer(state, HEADER_SECONDS)
        elif state is h11.SEND_BODY:
            self._set_timer(state, BODY_SECONDS)
        else:
            self._set_timer(None, 0.0)

    def _set_timer(self, state: object, seconds: float) -> None:
        if state is self._awaited:
            return
        self._awaited = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state is not None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)


# Seconds for responses under way; streams end at once.
_GRACE = 5


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate and key for https."""

    certfile: str
    keyfile: str | None = None
    password: str | None = None

    def check(self) -> None:
        """Raise `ConfigError` for files that no server can use."""

        def password() -> str:
            # Otherwise OpenSSL asks at the terminal, where nobody may be.
            if self.password is None:
                raise ConfigError(
                    "the key is encrypted: give its password in "
                    "HEADRACE_DASHBOARD_SSL_KEYFILE_PASSWORD"
                )
            return self.password

        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certfile, self.keyfile, password)
        except OSError as error:
            files = " and ".join(filter(None, (self.certfile, self.keyfile)))
            reason = error.strerror or str(error) or "wrong password"
            raise ConfigError(
                f"no certificate and key can be read from {files} ({reason}): --ssl-certfile and "
                "--ssl-keyfile name PEM files"
            ) from None


class DashboardServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM, or until `handle_exit` is called."""

    def __init__(
        self,
        app: Headrace,
        *,
        auth: Auth | None = None,
        insecure: bool = False,
        token: str | None = None,
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
        certificate: Certificate | None = None,
    ) -> None:
        """`proxies` are the addresses of proxies whose forwarding headers are trusted."""
        self._app = app
        self._site = dashboard(app, auth=auth, insecure=insecure, token=token, origins=origins)
        if certificate is not None:
            certificate.check()
        super().__init__(
            uvicorn.Config(
                self._site,
                http=TimeoutProtocol,
                ws="none",
                lifespan="off",
                # As the rest of the process logs.
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                ssl_certfile=certificate.certfile if certificate else None,
                ssl_keyfile=certificate.keyfile if certificate else None,
                ssl_keyfile_password=certificate.password if certificate else None,
            )
        )

    def take_token(self) -> str | None:
        """The token, to be shown to the user; None if none is needed. It is not logged then."""
        access = self._site.state.dashboard.access
        if not isinstance(access, LocalAccess):
            return None
        access.mark_shown()
        return access.token

    async def serve_at(self, listening: Sequence[socket.socket]) -> None:
        """Serve listening sockets until the server is asked to exit."""
        async with self._app:
            try:
                await self.serve(list(listening))
            finally:
                await self._site.state.dashboard.background_actions.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Exit without raising the signal again at the end, as uvicorn would."""
        self._site.state.dashboard.streams.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
