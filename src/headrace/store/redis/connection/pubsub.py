"""Notifications over publish/subscribe: best effort, needed only for speed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import msgspec

from headrace.core.job.ids import JobId
from headrace.errors import StoreError
from headrace.store.contract import Listener
from headrace.store.redis.connection.link import DEFAULT_SETTINGS, Connect, Link, LinkSettings

log = logging.getLogger("headrace.store")

_decode_keys = msgspec.msgpack.Decoder(list[bytes]).decode
_RECONNECT = 1.0
# A silent node may have died, while the cluster goes on.
_PING_EVERY = 10.0


def encode_keys(job_ids: Sequence[JobId]) -> bytes:
    return msgspec.msgpack.encode(job_ids)


class PubSub:
    """One subscribed connection for all listeners of one event loop; open while there are any."""

    def __init__(self, connect: Connect, settings: LinkSettings = DEFAULT_SETTINGS) -> None:
        self._connect = connect
        self._settings = settings
        self._listeners: dict[str, set[Listener]] = {}
        self._link: Link | None = None
        self._listening: asyncio.Task[None] | None = None
        self._heard = True

    async def add(self, channel: str, listener: Listener) -> ChannelHandle:
        new = channel not in self._listeners
        self._listeners.setdefault(channel, set()).add(listener)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="headrace-pubsub")
        elif new and self._link is not None:
            await self._link.send("SUBSCRIBE", channel)
        return ChannelHandle(self, channel, listener)

    async def remove(self, channel: str, listener: Listener) -> None:
        listeners = self._listeners.get(channel, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(channel, None)
        if not self._listeners:
            await self.close()

    async def close(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        while True:
            link = Link(self._connect, settings=self._settings)
            try:
                await self._subscribe(link)
                await self._receive(link)
            except StoreError as error:
                log.debug("signals are cut off: %s", error, extra={"error": str(error)})
            finally:
                self._link = None
                await link.drop()
            await asyncio.sleep(_RECONNECT)

    async def _receive(self, link: Link) -> None:
        pinging = asyncio.create_task(self._ping(link), name="headrace-pubsub-ping")
        try:
            while True:
                self._dispatch(await link.receive())
                self._heard = True
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)

    async def _ping(self, link: Link) -> None:
        """Close a connection on which nothing arrives any more, not even an answer to a ping."""
        self._heard = True
        with contextlib.suppress(StoreError):
            while self._heard and not await link.has_old_credentials():
                self._heard = False
                await link.send("PING")
                await asyncio.sleep(_PING_EVERY)
        await link.drop()

    async def _subscribe(self, link: Link) -> None:
        subscribed: set[str] = set()
        # Again for listeners that were added while we were connecting.
        while missing := self._listeners.keys() - subscribed:
            await link.send("SUBSCRIBE", *missing)
            subscribed |= missing
        self._link = link

    def _dispatch(self, message: list[bytes]) -> None:
        # The answer to a ping has no third part.
        kind, channel = message[:2]
        if kind == b"message":
            self._tell(channel, _keys(message[2]))
        elif kind == b"subscribe":
            # Earlier notifications are lost: let all listeners look.
            self._tell(channel, None)

    def _tell(self, channel: bytes, job_ids: Sequence[JobId] | None) -> None:
        for listener in tuple(self._listeners.get(channel.decode(), ())):
            listener(job_ids)


def _keys(data: bytes) -> list[JobId] | None:
    try:
        return _decode_keys(data) if data else None
    except msgspec.MsgspecError:
        return None


class ChannelHandle:
    """A listener of one channel, until it is closed."""

    def __init__(self, pubsub: PubSub, channel: str, listener: Listener) -> None:
        self._pubsub, self._channel, self._listener = pubsub, channel, listener

    async def close(self) -> None:
        await self._pubsub.remove(self._channel, self._listener)
