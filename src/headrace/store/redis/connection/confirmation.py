"""Sends that return only when replicas, or disks, have them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis
import redis.exceptions as driver

from headrace.core.confirming import Confirming
from headrace.errors import StoreUnavailable
from headrace.store.redis.keys import confirmation_key

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

WAIT_MS = 1000
# With `appendfsync everysec`, the usual setting, a write is on disk within about a second.
WAIT_FOR_DISK_MS = 3000
_KEPT_MS = 60_000
_FOREVER = float("inf")


class Confirmation:
    """Makes the server wait until this many replicas have what a script wrote, and with `on_disk`
    until they and the server itself have it on disk. It is sent together with the script, on the
    same connection. If it takes too long, the request counts as unanswered: it was applied, and may
    be lost with its server."""

    def __init__(self, replicas: int, *, on_disk: bool = False) -> None:
        self.replicas = replicas
        self.on_disk = on_disk

    @classmethod
    def of(cls, confirm: Confirming, always: Confirmation | None) -> Confirmation:
        """What one send asks for, beside what all sends of the app do."""
        replicas = always.replicas if always else 0
        if Confirming.REPLICATED in confirm:
            replicas = max(replicas, 1)
        on_disk = Confirming.DISK in confirm or (always is not None and always.on_disk)
        return cls(replicas, on_disk=on_disk)

    async def exchange(self, connection: AbstractConnection, script: Sequence[Any]) -> Any:
        """The reply to an EVALSHA or EVAL, when it is confirmed."""
        # A separate write: a repeated script may find everything done and write nothing, and the
        # server waits only for what this connection has written.
        write = ("SET", confirmation_key(script[3]), "1", "PX", _KEPT_MS)
        packed = [hiredis.pack_command(tuple(each)) for each in (script, write, self._wait)]
        await connection.send_packed_command(b"".join(packed), check_health=False)
        reply, written, confirmed = [await _reply(connection) for _ in packed]
        if isinstance(reply, driver.ResponseError):
            raise reply
        for trouble in (written, confirmed):
            if isinstance(trouble, driver.ResponseError):
                raise StoreUnavailable(f"it could not be confirmed: {trouble}", sent=True)
        if trouble := self._missing(confirmed):
            raise StoreUnavailable(trouble, sent=True)
        return reply

    @property
    def longest(self) -> float:
        """Seconds that the server waits at most."""
        return self._wait[-1] / 1000  # type: ignore[no-any-return]

    @property
    def _wait(self) -> tuple[Any, ...]:
        if self.on_disk:
            return ("WAITAOF", 1, self.replicas, WAIT_FOR_DISK_MS)
        return ("WAIT", self.replicas, WAIT_MS)

    def _missing(self, confirmed: Any) -> str:
        """What was not confirmed in time; empty if everything was."""
        here, replicas = confirmed if self.on_disk else (1, confirmed)
        within = f"within {self.longest:g} s"
        if not here:
            return f"the server has not written it to its disk {within}"
        if replicas < self.replicas:
            return f"{replicas} of {self.replicas} replicas confirmed it {within}"
        return ""


async def _reply(connection: AbstractConnection) -> Any:
    """A reply, or the error that it is: further replies follow it in any case."""
    try:
        return await connection.read_response(timeout=_FOREVER)
    except driver.ResponseError as error:
        return error
