"""A wire between an app and Redis that can be cut at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from headrace.store.redis.scripts import Script


def calls(script: str) -> bytes:
    """What a request to run the script holds."""
    return Script(script).sha.encode()


class Proxy:
    """Passes everything on, until it is told to swallow an answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._marker = b""
        self._cuts = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()
        self.swallowed: list[bytes] = []

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    def swallow_answer_to(self, marker: bytes, times: int = 1) -> None:
        """The next requests that hold the marker reach the server and are carried out; instead of
        the answer, if it is neither empty nor an error, the connection is closed."""
        self._marker, self._cuts = marker, times

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for end in tuple(self._ends):
            end.close()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        ends = {writer, far_writer}
        self._ends |= ends
        wire = _Wire(self)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(wire.there(reader, far_writer))
                both.create_task(wire.back(far_reader, writer))
        except* (_Cut, OSError):
            pass
        finally:
            self._ends -= ends
            self._serving.discard(serving)
            for end in ends:
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    def swallows(self, request: bytes, answer: bytes) -> bool:
        """Whether this answer to this request is to be lost."""
        if self._cuts == 0 or self._marker not in request:
            return False
        if answer.startswith((b"-", b"*-1", b"$-1")):
            return False
        self._cuts -= 1
        self.swallowed.append(answer)
        return True


class _Cut(Exception):
    """One side is closed, or has to be."""


class _Wire:
    """One connection: a request at a time, as Headrace uses it."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._request = b""

    async def there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 20):
            self._request = self._request or part
            writer.write(part)
            await writer.drain()
        raise _Cut

    async def back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await reader.read(1 << 20):
            request, self._request = self._request, b""
            if self._proxy.swallows(request, answer):
                break
            writer.write(answer)
            await writer.drain()
        raise _Cut
