"""A wire between an app and Redis on which everything goes wrong that can."""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum, auto
from types import TracebackType
from typing import NamedTuple

from headrace.store.redis.script import Script

ERROR = b"-ERR an error that is not true\r\n"


def calls(script: str) -> bytes:
    """What a request to run the script holds."""
    return Script(script).sha.encode()


class Fault(Enum):
    """What happens to a request, or to the answer to it."""

    SWALLOW = auto()
    """It is carried out, and the connection is closed instead of the answer."""
    CUT = auto()
    """The connection is closed in the middle of the answer."""
    FALSIFY = auto()
    """It is carried out, and the answer is an error."""
    LATE = auto()
    """The connection is closed, and the request reaches the server by `deliver_late`."""


class Held(NamedTuple):
    """A request that has not reached the server."""

    request: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Proxy:
    """Passes everything on, but for what it is told to spoil."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._fault, self._marker, self._times = Fault.SWALLOW, b"", 0
        self._serving: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.swallowed: list[bytes] = []
        self.held: list[Held] = []

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    @property
    def open_connections(self) -> int:
        return len(self._ends) // 2

    def spoil(self, fault: Fault, marker: bytes, times: int = 1) -> None:
        """Do this to the next requests that hold the marker; answers that are empty or errors are
        none to spoil."""
        self._fault, self._marker, self._times = fault, marker, times

    def swallow_answer_to(self, marker: bytes, times: int = 1) -> None:
        self.spoil(Fault.SWALLOW, marker, times)

    async def deliver_late(self) -> list[bytes]:
        """Have the requests that were held reach the server: its answers, which nobody else
        hears."""
        answers = []
        for request, reader, writer in self.held:
            writer.write(request)
            answers.append(await reader.read(1 << 20))
            writer.close()
        self.held.clear()
        return answers

    def black_hole(self) -> None:
        """From now on nothing passes, either way; what was sent meanwhile passes in the end."""
        self._passing.clear()

    def let_pass(self) -> None:
        self._passing.set()

    async def until_passing(self) -> None:
        await self._passing.wait()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.let_pass()
        for end in (*self._ends, *(held.writer for held in self.held)):
            end.close()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        ends = {writer, far_writer}
        self._ends |= ends
        wire = _Wire(self, reader, writer, far_reader, far_writer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(wire.there())
                both.create_task(wire.back())
        except* (_Cut, OSError):
            pass
        finally:
            self._ends -= ends
            self._serving.discard(serving)
            if wire.held:
                self.held.append(Held(wire.held, far_reader, far_writer))
                ends.discard(far_writer)
            for end in ends:
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    def holds(self, request: bytes) -> bool:
        """Whether this request is to come late."""
        return self._fault is Fault.LATE and self._applies(request)

    def spoiled(self, request: bytes, answer: bytes) -> Fault | None:
        """What is to be done to this answer."""
        if self._fault is Fault.LATE or answer.startswith((b"-", b"*-1", b"$-1")):
            return None
        if not self._applies(request):
            return None
        self.swallowed.append(answer)
        return self._fault

    def _applies(self, request: bytes) -> bool:
        if self._times == 0 or self._marker not in request:
            return False
        self._times -= 1
        return True


class _Cut(Exception):
    """One side is closed, or has to be."""


class _Wire:
    """One connection: a request at a time, as Headrace uses it."""

    def __init__(
        self,
        proxy: Proxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._far_reader, self._far_writer = far_reader, far_writer
        self._request = b""
        self.held = b""

    async def there(self) -> None:
        while part := await self._reader.read(1 << 20):
            await self._proxy.until_passing()
            if self._proxy.holds(part):
                self.held = part
                break
            self._request = self._request or part
            self._far_writer.write(part)
            await self._far_writer.drain()
        raise _Cut

    async def back(self) -> None:
        while answer := await self._far_reader.read(1 << 20):
            await self._proxy.until_passing()
            request, self._request = self._request, b""
            fault = self._proxy.spoiled(request, answer)
            if fault is Fault.SWALLOW:
                break
            self._writer.write(_changed(answer, fault))
            await self._writer.drain()
            if fault is Fault.CUT:
                break
        raise _Cut


def _changed(answer: bytes, fault: Fault | None) -> bytes:
    if fault is Fault.FALSIFY:
        return ERROR
    return answer[: max(1, len(answer) // 2)] if fault is Fault.CUT else answer
