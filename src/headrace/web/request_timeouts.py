"""Request timeouts: a client that opens a connection has to complete its request in time."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 15.0
# A form may have some megabytes, over a slow connection.
BODY_SECONDS = 120.0
# Below the usual limit of open files per process.
MOST_CONNECTIONS = 800


class TimeoutProtocol(H11Protocol):
    """Closes a connection if the head or the body of a request is not complete in time, however
    much of it has come; and refuses connections beyond `MOST_CONNECTIONS`."""

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
