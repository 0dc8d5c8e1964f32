"""Access to the thread that owns the connection, from any event loop."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.core.address import DEFAULT_OPTIONS, SqliteOptions
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.file import DatabaseFile
from headrace.store.sqlite.connection.signals import Post, Signals
from headrace.store.sqlite.connection.thread import DatabaseThread, Request

if TYPE_CHECKING:
    import sqlite3
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Iterable, Sequence

    from headrace.store.contract import Listener
    from headrace.store.sqlite.connection.schema import Connection
    from headrace.store.sqlite.connection.signals import Kind, Listening, Notification
    from headrace.store.sqlite.connection.thread import Inbox, Read, Write

T = TypeVar("T")


class Database:
    """One SQLite database, open while at least one event loop has it open. A database in memory
    keeps its content for as long as this object lives."""

    def __init__(self, path: str, options: SqliteOptions = DEFAULT_OPTIONS) -> None:
        self.signals = Signals()
        self._path = path
        self._open = partial(schema.connect, path, options)
        self._lock = threading.Lock()
        self._loops: set[AbstractEventLoop] = set()
        self._inbox: Inbox | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._memory: Connection | None = None
        self._file: DatabaseFile | None = None

    @property
    def generation(self) -> int:
        """How often the file was replaced by another, which was opened in its place."""
        return self._file.generation if self._file else 0

    async def open(self) -> None:
        """Open the database; raises `StoreError` if it is not usable."""
        request = _request(_nothing, None)
        with self._lock:
            self._forget_if_forked()
            self._loops.add(asyncio.get_running_loop())
            if self._inbox is None:
                self._start()
            # Under one lock: a thread that cannot open the file ends as soon as it has answered.
            self._put(request)
        await request.future

    async def close(self) -> None:
        """Close for this event loop; the last one ends the thread, after the requests before it."""
        thread = self.leave([asyncio.get_running_loop()])
        # Not joined in a thread of the loop: at the end of the program it has none any more.
        while thread is not None and thread.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    def leave(self, loops: Iterable[AbstractEventLoop]) -> threading.Thread | None:
        """Close for these event loops, from any thread. Returns the database's own if it ends."""
        with self._lock:
            self._forget_if_forked()
            self._loops -= {*loops}
            self._loops = {loop for loop in self._loops if not loop.is_closed()}
            if self._loops or self._inbox is None:
                return None
            inbox, thread = self._inbox, self._thread
            self._inbox = self._thread = None
            inbox.put(None)
        return thread

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """What `read` returns, on one consistent state of the database."""
        result: T = await self._ask(read, None)
        return result

    async def read_when_notified(
        self, topic: tuple[Kind, str], read: Callable[[sqlite3.Connection], list[T]], wait: float
    ) -> list[T]:
        """What `read` returns once it is not empty; an empty list after `wait` seconds."""
        found = await self.read(read)
        if found or wait <= 0:
            return found
        notified = asyncio.Event()
        listening = await self.listen([topic], lambda _: notified.set())
        try:
            async with asyncio.timeout(wait):
                # First without waiting: it may have come before the listener was there.
                while not (found := await self.read(read)):
                    await notified.wait()
                    notified.clear()
        except TimeoutError:
            return []
        finally:
            listening.stop()
        return found

    def write(
        self,
        write: Callable[[sqlite3.Connection, list[Notification]], T],
        *,
        unless: Callable[[sqlite3.Connection], T | None] | None = None,
    ) -> Future[T]:
        """What `write` returns, once it is safe on disk; raises if none of it was done. If `unless`
        returns anything but None, that is the answer, and nothing is locked."""
        return self._ask(unless, write)

    async def listen(self, topics: Sequence[tuple[Kind, str]], listener: Listener) -> Listening:
        """Call `listener`, on this loop, for each notification from now on."""
        listening = self.signals.listen(topics, asyncio.get_running_loop(), listener)
        try:
            # The thread may sleep until the next request. Awake, it sees the listener and begins to
            # watch for writes of other processes.
            await self.read(_nothing)
        except BaseException:
            listening.stop()
            raise
        return listening

    def _ask(self, read: Read | None, write: Write | None) -> Future[Any]:
        request = _request(read, write)
        # Under the lock: a request behind the None that stops the thread is never answered.
        with self._lock:
            self._put(request)
        return request.future

    def _put(self, request: Request) -> None:
        if self._inbox is None or self._pid != os.getpid():
            raise StoreUnavailable(f"{self._path} is not open in this process: open() it first")
        self._inbox.put(request)

    def _start(self) -> None:
        self._inbox = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, args=(self._inbox,), name="headrace-sqlite", daemon=True
        )
        self._thread.start()

    def _run(self, inbox: Inbox) -> None:
        try:
            connection = self._connect()
        except Exception as error:
            self._refuse_all(inbox, error)
            return
        self._file = DatabaseFile(self._path, connection, self._open, self.generation)
        DatabaseThread(self._file, inbox, self.signals).run()
        self._file.close()

    def _connect(self) -> Connection:
        if self._path != schema.MEMORY:
            return self._open()
        if self._memory is None:
            self._memory = self._open()
            # Not at exit: the thread may be using it, and all is gone then anyway.
            weakref.finalize(self, self._memory.close).atexit = False
        return self._memory

    def _refuse_all(self, inbox: Inbox, error: Exception) -> None:
        """Fail all requests, because the database cannot be opened; `open` may try again."""
        with self._lock:
            if self._inbox is inbox:
                self._inbox = self._thread = None
                self._loops.clear()
        post = Post()
        while not inbox.empty():
            request = inbox.get()
            if request is not None:
                request.error = error
                request.answer(post)
        post.send()

    def _forget_if_forked(self) -> None:
        # A child process has its parent's memory but not its thread, and SQLite forbids it to use
        # its parent's connection.
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._inbox = self._thread = None
            self._loops.clear()


def _request(read: Read | None, write: Write | None) -> Request:
    loop = asyncio.get_running_loop()
    return Request(read, write, loop.create_future(), loop)


def _nothing(connection: sqlite3.Connection) -> None:
    """Returns once the connection is there."""
