"""Processes that run one job at a time and can be killed."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from headrace.client.context import RunReporter
from headrace.core.job.failure import Unfit
from headrace.core.job.retry import RemoteError
from headrace.core.job.state import Reason
from headrace.errors import Defer, Reject, RetryLater, TaskCancelled, TaskControl
from headrace.worker.processes.process_reporter import (
    HEADER,
    OnceRequest,
    ReportMessage,
    framed,
    handle_message,
)
from headrace.worker.run.run import Run


class RunRequest(msgspec.Struct, array_like=True):
    """What the worker asks of a process."""

    module: str
    qualname: str
    queue: str
    key: bytes
    payload: bytes
    attempt: int
    worker: str
    fence: int
    timeout: float
    headers: dict[str, str]
    keep_result: bool
    first_argument: bytes = b""
    """The first argument, encoded, if it does not come with the others."""


class RunReply(msgspec.Struct, array_like=True, tag="reply"):
    """What comes back: a value, an error, or task control."""

    value: bytes = b""
    error_names: tuple[str, ...] = ()
    error_text: str = ""
    traceback: str = ""
    reason: str = ""
    """Set if the job was unfit to run."""
    control: str = ""
    delay: float | None = None


class RunBegun(msgspec.Struct, array_like=True, tag="begun"):
    """The process is there, has imported the task, and enters its function now."""


_decode: Callable[[bytes], RunReply | RunBegun | ReportMessage | OnceRequest]
_decode = msgspec.msgpack.Decoder(RunReply | RunBegun | ReportMessage | OnceRequest).decode
# For an interpreter to start and to import the app, which is not the function's time.
_STARTING = 60.0


class ProcessDied(Exception):
    """The process that ran the job ended before the job did."""


class ProcessPool:
    """Up to `most` processes, started when needed and used again."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._idle: list[TaskProcess] = []
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[TaskProcess]:
        """A process, once there is a free one."""
        async with self._free:
            process = self._idle_process() or await TaskProcess.start()
            try:
                yield process
            finally:
                if process.usable and not self._closed:
                    self._idle.append(process)
                else:
                    await process.kill()

    def _idle_process(self) -> TaskProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            process.forget()
        return None

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.pop().kill()


class TaskProcess:
    """One child. It leaves by itself when its socket is closed, and dies with its parent."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.usable = True
        """Whether nothing is under way in it, and nothing on its way to it."""

    @classmethod
    async def start(cls) -> TaskProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headrace.worker.processes.child",
                str(theirs.fileno()),
                str(os.getpid()),
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # A Ctrl-C in the terminal is for the worker, which ends its processes.
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**30)
        return cls(process, reader, writer)

    async def run(self, run: Run) -> bytes:
        """The encoded result of the job. If the job is cancelled, the function is ended and
        awaited; a second cancellation does not wait for it."""
        self.usable = False
        run.put_off_end(_STARTING)
        asking = asyncio.ensure_future(self.ask(_request(run), run.reporter(), run.put_off_end))
        try:
            try:
                reply = await asyncio.shield(asking)
                self.usable = True
            except asyncio.CancelledError:
                if not run.cancelled:
                    raise
                self.terminate()
                reply = await asyncio.shield(asking)
        finally:
            asking.cancel()
        return _unpacked(reply)

    async def ask(
        self, request: RunRequest, reporter: RunReporter, begun: Callable[[], None]
    ) -> RunReply:
        """The reply. Reports go to `reporter`; `begun` is called when the function begins."""
        try:
            await self._send(request)
            while True:
                message = await self._received()
                if isinstance(message, RunReply):
                    return message
                if isinstance(message, RunBegun):
                    begun()
                elif (answer := await handle_message(message, reporter)) is not None:
                    await self._send(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ProcessDied(f"the process that ran the job {how}") from None

    async def _send(self, message: msgspec.Struct) -> None:
        self._writer.write(framed(message))
        await self._writer.drain()

    async def _received(self) -> RunReply | RunBegun | ReportMessage | OnceRequest:
        size = int.from_bytes(await self._reader.readexactly(HEADER), "big")
        return _decode(await self._reader.readexactly(size))

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    def forget(self) -> None:
        """Close our end, and with it the process if it still runs."""
        self._writer.close()

    def terminate(self) -> None:
        """Have the function end at once, with its `finally` blocks."""
        if self._process.returncode is None:
            self._process.terminate()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self.forget()


def _request(run: Run) -> RunRequest:
    function = run.task.function
    return RunRequest(
        _importable(function.__module__),
        function.__qualname__,
        run.delivery.queue,
        run.delivery.job_id,
        run.payload,
        run.attempt,
        run.settings.worker,
        run.fence,
        run.timeout or 0.0,
        dict(run.context().headers),
        run.keeps_result,
        run.first_argument,
    )


def _importable(module: str) -> str:
    """The name under which the child finds a module; for a script that is being run, its path."""
    if module != "__main__":
        return module
    main: Any = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return str(spec.name) if spec is not None else os.path.abspath(str(main.__file__))


def _unpacked(reply: RunReply) -> bytes:
    if reply.control:
        raise _control(reply)
    if reply.reason:
        raise Unfit(Reason(reply.reason), reply.error_text)
    if reply.error_names:
        raise RemoteError(reply.error_names, reply.error_text, reply.traceback)
    return reply.value


def _control(reply: RunReply) -> TaskControl | TaskCancelled:
    if reply.control == "cancelled":
        return TaskCancelled()
    if reply.control == "defer":
        return Defer(reply.delay or 0.0)
    if reply.control == "reject":
        return Reject(reply.error_text)
    return RetryLater(reply.delay, reply.error_text)
