"""The dashboard as a server of its own."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from headrace.errors import ConfigError
from headrace.web import dashboard
from headrace.web.auth.local_access import LocalAccess
from headrace.web.request_timeouts import TimeoutProtocol

if TYPE_CHECKING:
    import socket

    from headrace.app import Headrace
    from headrace.web.auth.access import Auth

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
            # Otherwise OpenSSL asks at a terminal, where nobody may be.
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
        """The token of this machine's user, to be shown to them; None if none is needed. It is
        then not logged."""
        access = self._site.state.dashboard.access
        if not isinstance(access, LocalAccess):
            return None
        access.mark_shown()
        return access.token

    async def serve_at(self, listening: socket.socket) -> None:
        """Serve a listening socket until the server is asked to exit."""
        async with self._app:
            try:
                await self.serve([listening])
            finally:
                await self._site.state.dashboard.background_actions.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Exit without raising the signal again at the end, as uvicorn would."""
        self._site.state.dashboard.streams.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
