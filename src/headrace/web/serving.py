"""The dashboard as a server of its own."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from headrace.web import dashboard

if TYPE_CHECKING:
    import socket

    from headrace.app import Headrace
    from headrace.web.access import Auth

# For those who are being answered; streams end at once.
_GRACE = 5


class Server(uvicorn.Server):
    """Serves until SIGINT or SIGTERM, or until `handle_exit` is called."""

    def __init__(self, app: Headrace, *, auth: Auth | None = None, insecure: bool = False) -> None:
        self._app = app
        self._site = dashboard(app, auth=auth, insecure=insecure)
        super().__init__(
            uvicorn.Config(
                self._site,
                lifespan="off",
                # As the rest of the process logs.
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
                # Whoever runs a proxy in front has to say so to a server of their own.
                proxy_headers=False,
            )
        )

    async def serve_at(self, listening: socket.socket) -> None:
        """Serve what comes in at a socket that is listening, until told to end."""
        async with self._app:
            try:
                await self.serve([listening])
            finally:
                await self._site.state.board.errands.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """As asked, and not by raising the signal again at the end."""
        self._site.state.board.streams.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
