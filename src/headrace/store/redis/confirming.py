"""Sends that are answered only when replicas have them, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis
import redis.exceptions as driver

from headrace.errors import StoreUnavailable
from headrace.store.redis.keys import confirmation_key

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

WAIT_MS = 1000
_KEPT_MS = 60_000
_FOREVER = float("inf")


class Confirmation:
    """Has the server wait until so many replicas have what a script wrote; goes with the script in
    one piece, on its connection. If they are too few the request counts as unanswered: it was
    carried out, and may be lost with its server."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    async def exchange(self, connection: AbstractConnection, script: Sequence[Any]) -> Any:
        """The reply to an EVALSHA or EVAL, when it is confirmed."""
        # A write of its own: a script that is repeated may find all done and write nothing, and the
        # server waits for what this connection has written.
        write = ("SET", confirmation_key(script[3]), "1", "PX", _KEPT_MS)
        wait = ("WAIT", self._replicas, WAIT_MS)
        packed = [hiredis.pack_command(tuple(each)) for each in (script, write, wait)]
        await connection.send_packed_command(b"".join(packed), check_health=False)
        reply, written, confirmed = [await _reply(connection) for _ in packed]
        if isinstance(reply, driver.ResponseError):
            raise reply
        for trouble in (written, confirmed):
            if isinstance(trouble, driver.ResponseError):
                raise StoreUnavailable(f"it could not be confirmed: {trouble}", sent=True)
        if confirmed < self._replicas:
            raise StoreUnavailable(
                f"{confirmed} of {self._replicas} replicas confirmed it within "
                f"{WAIT_MS / 1000:g} s",
                sent=True,
            )
        return reply


async def _reply(connection: AbstractConnection) -> Any:
    """A reply, also if it is an error: the others come behind it all the same."""
    try:
        return await connection.read_response(timeout=_FOREVER)
    except driver.ResponseError as error:
        return error
