"""Where records go: a topic, a logger, or a function."""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Protocol

import msgspec

from headrace.audit.record import AuditRecord
from headrace.client.topic.publication import PublishResult
from headrace.client.topic.topic import Topic
from headrace.errors import AuditError, PayloadTooLarge

Write = Callable[[AuditRecord], object]
Writing = asyncio.Future[None]

_BATCH = 500
# Records beyond these fail: the sink is too slow.
_MOST_WAITING = 10_000


class Sink(Protocol):
    """Made in the loop of a worker, for that worker."""

    def write(self, record: AuditRecord) -> Writing | None:
        """Begin to write. The future is done when the record is written; None if it is written
        already. It is cancelled when nobody waits for it any more."""
        ...

    def close(self) -> None:
        """Nothing more will be written."""
        ...


class TopicSink:
    """Publishes records. Those that come while some are on their way go together next."""

    def __init__(self, topic: Topic[AuditRecord]) -> None:
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[AuditRecord, Writing]] = []
        self._flushing: asyncio.Task[None] | None = None

    def write(self, record: AuditRecord) -> Writing:
        if len(self._waiting) >= _MOST_WAITING:
            raise _overrun()
        writing: Writing = self._loop.create_future()
        self._waiting.append((record, writing))
        if self._flushing is None:
            # In an empty context: that of one run is not for the records of others.
            self._flushing = self._loop.create_task(
                self._flush(), name="headrace-audit", context=Context()
            )
        return writing

    def close(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                await self._publish([item for item in batch if not item[1].done()])
        finally:
            self._flushing = None

    async def _publish(self, batch: list[tuple[AuditRecord, Writing]]) -> None:
        try:
            results = await self._topic.publish_many([record for record, _ in batch])
        except Exception as error:
            for _, writing in batch:
                _end(writing, error)
            return
        for (record, writing), result in zip(batch, results, strict=True):
            if _has_too_much(record, result):
                self._waiting.append((msgspec.structs.replace(record, payload=None), writing))
            else:
                _end(writing, result.error)


def _has_too_much(record: AuditRecord, result: PublishResult) -> bool:
    return isinstance(result.error, PayloadTooLarge) and record.payload is not None


class LoggerSink:
    """Writes a line for each record, with all of its fields as `extra`."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def write(self, record: AuditRecord) -> None:
        if not self._logger.isEnabledFor(logging.INFO):
            raise AuditError(
                f"logger {self._logger.name!r} drops records: set its level to INFO or below"
            )
        self._logger.info(
            "%s %s of %s: %s after %.1f ms, attempt %d",
            record.kind,
            record.id or "(without id)",
            record.task or record.queue,
            record.outcome,
            record.duration_ms,
            record.attempt,
            extra={**msgspec.structs.asdict(record), "redelivered": record.redelivered},
        )

    def close(self) -> None: ...


class AsyncSink:
    """Awaits a function with each record, side by side."""

    def __init__(self, function: Callable[[AuditRecord], Awaitable[object]]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._calls: set[asyncio.Task[None]] = set()

    def write(self, record: AuditRecord) -> Writing:
        call = self._loop.create_task(self._call(record), name="headrace-audit")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        # Shielded: when the wait is over, a function that does not end is not waited for either.
        writing = asyncio.shield(call)
        writing.add_done_callback(lambda _: call.cancel())
        return writing

    def close(self) -> None:
        for call in self._calls:
            call.cancel()

    async def _call(self, record: AuditRecord) -> None:
        await self._function(record)


class ThreadSink:
    """Calls a function with one record after the other, in a thread of its own: it may block."""

    def __init__(self, function: Write) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.Queue[tuple[AuditRecord, Writing] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None

    def write(self, record: AuditRecord) -> Writing:
        if self._thread is None:
            # A daemon: one that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="headrace-audit", daemon=True)
            self._thread.start()
        writing: Writing = self._loop.create_future()
        try:
            self._waiting.put_nowait((record, writing))
        except queue.Full:
            raise _overrun() from None
        return writing

    def close(self) -> None:
        if self._thread is not None:
            with suppress(queue.Full):
                self._waiting.put_nowait(None)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            record, writing = item
            if not writing.done():
                error = self._call(record)
                # The loop is gone if it took longer than the worker lived.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(_end, writing, error)

    def _call(self, record: AuditRecord) -> BaseException | None:
        try:
            value = self._function(record)
        except StopIteration as error:
            # Cannot pass through a future.
            return AuditError(f"it raised {error!r}")
        except BaseException as error:
            return error
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            return AuditError("it returned a coroutine that was not awaited: make it async itself")
        return None


def _overrun() -> AuditError:
    return AuditError(f"it cannot keep up: {_MOST_WAITING:,} records wait for it")


def _end(writing: Writing, error: BaseException | None) -> None:
    if writing.done():
        return
    if error is None:
        writing.set_result(None)
    else:
        writing.set_exception(error)
