"""Raises an exception in a function that runs in another thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from headrace.errors import TaskCancelled

Answer = tuple[Any, BaseException | None]

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Interruptible:
    """One function in a thread of a pool. `interrupt` ends it wherever it is in Python code; a call
    into C ends first. The thread itself goes on to other work, and must not be hit there."""

    __slots__ = ("_interrupted", "_lock", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """Raise `TaskCancelled` in the function; once, and only while it runs."""
        with self._lock:
            if self._thread is not None and not self._interrupted:
                _set_exception(ctypes.c_ulong(self._thread), ctypes.py_object(TaskCancelled))
            self._interrupted = True

    def run(self, work: Callable[..., Any], *args: Any) -> Answer:
        """Called in the thread: what the function returned, or what it raised."""
        answer: Answer | None = None
        lock = self._lock
        try:
            try:
                with lock:
                    self._thread = threading.get_ident()
                    interrupted = self._interrupted
                if interrupted:
                    raise TaskCancelled
                answer = work(*args), None
            except BaseException as error:
                answer = None, error
            # From here on nothing is sent to this thread.
            with lock:
                self._thread = None
            if self._interrupted:
                self._leave()
        except TaskCancelled as late:
            # It struck between the end of the function and here. It cannot strike twice.
            self._leave()
            answer = answer or (None, late)
        return answer

    def _leave(self) -> None:
        """Nothing is sent to this thread any more; call back what is on its way."""
        with self._lock:
            self._thread = None
        _set_exception(ctypes.c_ulong(threading.get_ident()), None)
