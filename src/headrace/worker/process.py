"""Processes that run one job at a time and can be killed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from typing import Any

import msgspec

from headrace.core.job import Reason
from headrace.core.judgement import Unfit
from headrace.core.retry import RemoteError
from headrace.errors import Defer, Reject, RetryLater, TaskControl
from headrace.worker.run import Run

log = logging.getLogger("headrace.worker")


class Request(msgspec.Struct, array_like=True):
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


class Reply(msgspec.Struct, array_like=True):
    """What comes back: a value, an error, or what the task said about its own run."""

    value: bytes = b""
    error_names: tuple[str, ...] = ()
    error_text: str = ""
    traceback: str = ""
    reason: str = ""
    """Set if the job was unfit to run."""
    control: str = ""
    delay: float | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode
HEADER = 8


class ProcessDied(Exception):
    """The process that ran the job ended before the job did."""


class ProcessPool:
    """Up to `most` processes, started when needed and used again."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._idle: list[TaskProcess] = []
        self._closed = False

    async def run(self, run: Run) -> bytes:
        """The encoded result of the job. A process that is cancelled is killed."""
        async with self._free:
            process = self._idle_process() or await TaskProcess.start()
            run.begin()
            try:
                reply = await process.ask(_request(run))
            except BaseException:
                await process.kill()
                raise
            if self._closed:
                await process.kill()
            else:
                self._idle.append(process)
        return _unpacked(reply)

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

    @classmethod
    async def start(cls) -> TaskProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headrace.worker.child",
                str(theirs.fileno()),
                str(os.getpid()),
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # A Ctrl-C in the terminal is for the worker, which tells its processes.
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**30)
        return cls(process, reader, writer)

    async def ask(self, request: Request) -> Reply:
        try:
            data = _encode(request)
            self._writer.write(len(data).to_bytes(HEADER, "big") + data)
            await self._writer.drain()
            size = int.from_bytes(await self._reader.readexactly(HEADER), "big")
            return _decode_reply(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ProcessDied(f"the process that ran the job {how}") from None

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    def forget(self) -> None:
        """Close our end, and with it the process if it still runs."""
        self._writer.close()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self.forget()


def _request(run: Run) -> Request:
    function = run.task.function
    return Request(
        _importable(function.__module__),
        function.__qualname__,
        run.delivery.queue,
        run.delivery.key,
        run.envelope.payload,
        run.attempt,
        run.host.worker,
        run.fence,
        run.timeout or 0.0,
        run.envelope.overrides.headers,
        bool(run.task.declared.result_ttl),
    )


def _importable(module: str) -> str:
    """The name under which the child finds a module; for a script that is being run, its path."""
    if module != "__main__":
        return module
    main: Any = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return str(spec.name) if spec is not None else os.path.abspath(str(main.__file__))


def _unpacked(reply: Reply) -> bytes:
    if reply.control:
        raise _control(reply)
    if reply.reason:
        raise Unfit(Reason(reply.reason), reply.error_text)
    if reply.error_names:
        raise RemoteError(reply.error_names, reply.error_text, reply.traceback)
    return reply.value


def _control(reply: Reply) -> TaskControl:
    if reply.control == "defer":
        return Defer(reply.delay or 0.0)
    if reply.control == "reject":
        return Reject(reply.error_text)
    return RetryLater(reply.delay, reply.error_text)
