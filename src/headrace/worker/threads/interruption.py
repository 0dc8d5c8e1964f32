"""Raises an exception in a function that runs in another thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.errors import TaskCancelled

Answer = tuple[Any, BaseException | None]

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
# Held while an exception is sent, so that a thread that is just leaving can wait until it is there.
_striking = threading.Lock()


class Interruptible:
    """One function in a thread of a pool. `interrupt` ends it wherever it is in Python code; a call
    into C ends first. The thread itself goes on to other work, and must not be hit there."""

    __slots__ = ("_interrupted", "_thread")

    def __init__(self) -> None:
        self._thread: list[int] = []
        """The thread, while the function runs. It is taken out once: by `interrupt`, which sends an
        exception to it, or by the thread, to which none is sent any more. No lock of its own: few
        functions are interrupted."""
        self._interrupted = False

    def interrupt(self) -> None:
        """Raise `TaskCancelled` in the function; once, and only while it runs."""
        with _striking:
            # First: a thread that comes now sees it, or is there to be taken.
            self._interrupted = True
            with suppress(IndexError):
                thread = ctypes.c_ulong(self._thread.pop())
                _set_exception(thread, ctypes.py_object(TaskCancelled))

    def run(self, work: Callable[..., Any], *args: Any) -> Answer:
        """Called in the thread: what the function returned, or what it raised."""
        answer: Answer | None = None
        try:
            try:
                self._thread.append(threading.get_ident())
                if self._interrupted:
                    raise TaskCancelled
                answer = work(*args), None
            except BaseException as error:
                answer = None, error
            self._leave()
        except TaskCancelled as late:
            # It struck between the end of the function and here. It cannot strike twice.
            self._leave()
            answer = answer or (None, late)
        return answer

    def _leave(self) -> None:
        """From here on nothing is sent to this thread; what is on its way is called back."""
        try:
            self._thread.pop()
        except IndexError:
            with _striking:
                _set_exception(ctypes.c_ulong(threading.get_ident()), None)
