"""The thread that owns a store's connection: requests made at the same moment share one
transaction, and so one wait for the disk. While a write waits for a file that another process has
locked, reads go on."""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.errors import is_busy, translated
from headrace.store.sqlite.connection.file import LOOK_SECONDS
from headrace.store.sqlite.connection.signals import Notification, Post

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from headrace.store.sqlite.connection.file import DatabaseFile
    from headrace.store.sqlite.connection.signals import Signals

log = logging.getLogger("headrace.store")

Read = Callable[[sqlite3.Connection], Any]
Write = Callable[[sqlite3.Connection, list[Notification]], Any]

# How often writes of other processes are looked for, while someone listens.
_POLL_SECONDS = 0.015
# Bounds the time that one transaction keeps other processes from writing.
_MOST_TOGETHER = 500
# Between two attempts to write to a file that others keep locked for longer than they should.
_LOCK_PAUSE = 0.01
# Written with each transaction, to know whether it took effect.
_NUMBER = "UPDATE temp.committed SET number = ?"
_LAST_NUMBER = "SELECT number FROM temp.committed"


class Request:
    """One read or write, and the future of `loop` that waits for its answer."""

    __slots__ = ("_loop", "error", "future", "read", "result", "write")

    def __init__(
        self,
        read: Read | None,
        write: Write | None,
        future: Future[Any],
        loop: AbstractEventLoop,
    ) -> None:
        self.read = read
        self.write = write
        self.result: Any = None
        self.error: Exception | None = None
        self.future = future
        self._loop = loop

    def answer(self, post: Post) -> None:
        post.add(self._loop, self._fulfil)

    def _fulfil(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


Inbox = queue.SimpleQueue[Request | None]
"""None stops the thread."""


class DatabaseThread:
    """Serves requests from `inbox` until None comes."""

    def __init__(self, file: DatabaseFile, inbox: Inbox, signals: Signals) -> None:
        assert file.connection is not None
        self._file = file
        self._connection: sqlite3.Connection = file.connection
        self._inbox = inbox
        self._signals = signals
        self._where = file.path
        [(self._number,)] = self._connection.execute(_LAST_NUMBER).fetchall()
        self._seen = self._data_version()
        self._look_at = 0.0
        self._file_at = 0.0
        self._ending = False
        """Whether None has come."""
        self._unread: list[Request] = []
        """Reads that came together with the writes under way."""
        self._later: list[Request] = []
        """Writes that came while others waited for the file."""

    def run(self) -> None:
        while self._later or not self._ending:
            self._step()

    def _step(self) -> None:
        """Serve the next batch of requests."""
        batch = self._gather()
        post = Post()
        self._tend_file(post)
        if batch:
            self._serve(batch, post)
        self._notice_others(post)
        post.send()

    def _gather(self) -> list[Request]:
        batch, self._later = self._later[:_MOST_TOGETHER], self._later[_MOST_TOGETHER:]
        return batch + self._arrived(
            _MOST_TOGETHER - len(batch), 0.0 if batch else self._patience()
        )

    def _arrived(self, most: int, patience: float | None) -> list[Request]:
        """New requests, as soon as there are any; none after `patience` seconds."""
        arrived: list[Request] = []
        with contextlib.suppress(queue.Empty):
            while len(arrived) < most and not self._ending:
                request = self._inbox.get(timeout=0.0 if arrived else patience)
                if request is None:
                    self._ending = True
                else:
                    arrived.append(request)
        return arrived

    def _patience(self) -> float | None:
        if not self._signals:
            return None
        return max(0.0, self._look_at - time.monotonic())

    def _tend_file(self, post: Post) -> None:
        now = time.monotonic()
        if now < self._file_at:
            return
        self._file_at = now + LOOK_SECONDS
        try:
            changed = self._file.tend()
        except Exception:
            # Whatever it is: without this thread, no request would be answered any more.
            log.exception("%s cannot be looked after", self._where, extra={"store": self._where})
            return
        if changed:
            self._connection = self._file.connection or self._connection
            # Listeners find out by asking that the file is gone, or that another is there.
            self._signals.publish_unknown(post)

    def _serve(self, batch: list[Request], post: Post) -> None:
        if self._file.connection is None:
            self._refuse(batch, post)
            return
        self._unread = [request for request in batch if not request.write]
        notifications = self._write([request for request in batch if request.write])
        self._read(self._unread)
        for request in batch:
            request.answer(post)
        self._signals.publish(notifications, post)

    def _refuse(self, batch: list[Request], post: Post) -> None:
        for request in batch:
            request.error = self._file.trouble
            request.answer(post)

    def _write(self, requests: list[Request]) -> list[Notification]:
        # Requests with a read in front write only if that finds something to do: an idle worker
        # must not take the lock that others need.
        if all(request.read for request in requests):
            requests = [request for request in requests if not self._answered(request)]
        return self._transact(requests) if requests else []

    def _answered(self, request: Request) -> bool:
        """Whether the read answered the request: with an error, or with anything but None."""
        self._attempt_read(request)
        return request.error is not None or request.result is not None

    def _transact(self, requests: list[Request]) -> list[Notification]:
        """Do all of them in one transaction; one that fails is undone without the others."""
        notifications: list[Notification] = []
        self._number += 1
        try:
            self._begin()
            self._connection.execute(_NUMBER, (self._number,))
            for request in requests:
                notifications += self._attempt_write(request, alone=len(requests) == 1)
            self._connection.execute("COMMIT")
        except Exception as error:
            committed = self._was_committed()
            if committed:
                # The error came after the commit: reported as failed, it would be done again.
                log.warning(
                    "%s: a commit was done, though it failed: %s",
                    self._where,
                    error,
                    extra={"store": self._where},
                )
                return notifications
            self._undo(requests, error, unknown=committed is None)
            return []
        return notifications

    def _begin(self) -> None:
        """Begin to write, once no other process does; reads go on until then."""
        give_up = time.monotonic() + schema.BUSY_SECONDS
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= give_up:
                    raise
            self._read_for(_LOCK_PAUSE)

    def _read_for(self, seconds: float) -> None:
        """Wait until requests come, `seconds` at most. Answer reads, and keep writes for later."""
        if self._ending:
            time.sleep(seconds)
        arrived = self._arrived(_MOST_TOGETHER, 0.0 if self._unread else seconds)
        self._later += [request for request in arrived if request.write]
        reads = self._unread + [request for request in arrived if not request.write]
        self._unread = []
        self._read(reads)
        post = Post()
        for request in reads:
            request.answer(post)
        self._notice_others(post)
        post.send()

    def _was_committed(self) -> bool | None:
        """Whether the transaction that just failed took effect; None if that is not known."""
        if self._connection.in_transaction:
            return False
        try:
            [(number,)] = self._connection.execute(_LAST_NUMBER).fetchall()
        except sqlite3.Error:
            return None
        return bool(number == self._number)

    def _attempt_write(self, request: Request, *, alone: bool) -> list[Notification]:
        notifications: list[Notification] = []
        assert request.write is not None
        if alone:
            request.result = request.write(self._connection, notifications)
            return notifications
        self._connection.execute("SAVEPOINT request")
        try:
            request.result = request.write(self._connection, notifications)
        except Exception as error:
            # On a full disk SQLite may give up the whole transaction, not only the statement.
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO request")
            request.error = translated(error, self._where)
            notifications = []
        self._connection.execute("RELEASE request")
        return notifications

    def _undo(self, requests: list[Request], error: Exception, *, unknown: bool = False) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        for request in requests:
            request.error = request.error or translated(error, self._where, unknown=unknown)

    def _read(self, requests: list[Request]) -> None:
        """Do all of them on one state of the database, without blocking writers."""
        if not requests:
            return
        try:
            self._connection.execute("BEGIN")
            for request in requests:
                self._attempt_read(request)
            self._connection.execute("COMMIT")
        except Exception as error:
            self._undo(requests, error)

    def _attempt_read(self, request: Request) -> None:
        assert request.read is not None
        give_up = time.monotonic() + schema.BUSY_SECONDS
        while True:
            try:
                request.result = request.read(self._connection)
                return
            except Exception as error:
                # Others keep readers out only while they repair a log that a crash has left.
                if not is_busy(error) or time.monotonic() >= give_up:
                    request.error = translated(error, self._where)
                    return
            time.sleep(_LOCK_PAUSE)

    def _notice_others(self, post: Post) -> None:
        """Notify all listeners if another connection has written since the last look."""
        now = time.monotonic()
        if not self._signals or now < self._look_at:
            return
        self._look_at = now + _POLL_SECONDS
        if self._file.connection is None:
            return
        version = self._data_version()
        if version != self._seen:
            self._seen = version
            self._signals.publish_unknown(post)

    def _data_version(self) -> int | None:
        try:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            # Listeners ask again, and get the error themselves.
            return None
        return version
