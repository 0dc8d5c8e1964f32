"""Requests that are begun and not ended: whoever holds a connection open has to send something."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 15.0
# A form may hold some megabytes, and come by a slow line.
BODY_SECONDS = 120.0
# Below the number of files that a process may usually have open.
MOST_CONNECTIONS = 800


class TimeoutProtocol(H11Protocol):
    """Closes a connection on which the head of a request, or its body, does not come to an end in
    time, however busily it is sent; and refuses one more than there may be."""

    _awaited: object = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._await(h11.IDLE, HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._await(None, 0.0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have come with this one. If none has begun, the time that is given to
        # connections without any is another.
        if self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
            self._look()

    def _look(self) -> None:
        """Whatever has come to its end starts no clock, and what goes on starts none anew."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._await(None, 0.0)
        elif state is h11.IDLE:
            self._await(state, HEADER_SECONDS)
        elif state is h11.SEND_BODY:
            self._await(state, BODY_SECONDS)
        else:
            self._await(None, 0.0)

    def _await(self, state: object, seconds: float) -> None:
        if state is self._awaited:
            return
        self._awaited = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state is not None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)
