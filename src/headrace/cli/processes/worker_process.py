"""Runs a worker in this process: its event loop, its signals, its end."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from headrace.cli.output import complain
from headrace.errors import HeadraceError
from headrace.worker.processes import gc_tuning
from headrace.worker.processes.child_lifetime import STORE_LOST
from headrace.worker.processes.signals import (
    dump_stacks_on_request,
    ending_signals,
    handle,
    let_go_of_closed_terminal,
)
from headrace.worker.worker import Worker
from headrace.worker.worker_outcome import WorkerOutcome

log = logging.getLogger("headrace.worker")

CRASHED = 2
TOO_LATE = 3
# Beyond the drain, a worker cancels, writes and leaves within a few seconds.
_GRACE = 15.0
_LAST_WORDS = 5.0


def exit_on_signal() -> None:
    """Until a worker runs there is nothing to hand back: a signal just ends the process, but for
    the one that asks for its stacks."""
    dump_stacks_on_request()
    for number in ending_signals():
        handle(number, lambda *_: os._exit(0))


def work(worker: Worker) -> NoReturn:
    """Run the worker until a signal ends it; ends the process with its exit code."""
    leave(_exit_code(worker))


def _exit_code(worker: Worker) -> int:
    gc_tuning.tune_gc()
    loop = _event_loop()
    asyncio.set_event_loop(loop)
    main = loop.create_task(worker.run(), name="headrace-worker")
    watchdog = Watchdog(worker.settings.drain)
    watchdog.start()

    def on_signal(number: int, _: object) -> None:
        let_go_of_closed_terminal()
        # A closed terminal may send SIGHUP twice, which does not mean to hurry.
        if number != signal.SIGHUP or not watchdog.stop_requested:
            watchdog.request_stop()
            loop.call_soon_threadsafe(worker.stop)

    for number in ending_signals():
        handle(number, on_signal)
    try:
        return _to_the_end(loop, main).exit_code
    except HeadraceError as error:
        complain(str(error))
        if worker.is_supervised and worker.lost_store:
            return STORE_LOST
    except BaseException:
        log.exception("the worker crashed", extra={"worker": worker.name, "exit_code": CRASHED})
    return CRASHED


def _to_the_end(
    loop: asyncio.AbstractEventLoop, main: asyncio.Task[WorkerOutcome]
) -> WorkerOutcome:
    """Run the loop until the worker has ended. SystemExit or KeyboardInterrupt in a task that a job
    has made ends the loop's run, and so does a job that stops the loop; the loop itself is sound
    and is run again."""
    while True:
        try:
            return loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            if main.done():
                return main.result()
            log.error(
                "a task beside the jobs raised %s; the worker goes on",
                repr(error),
                exc_info=error,
                extra={"error": repr(error)},
            )
        except RuntimeError:
            if main.done() or loop.is_closed():
                raise
            log.error(
                "a job, or what it left behind, stopped the event loop; the worker goes on",
                extra={"crashed": False},
            )


def _event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Watchdog:
    """Ends the process long after it should have ended by itself: an event loop that a handler
    blocks sees no signal and keeps no deadline."""

    def __init__(
        self,
        drain: float,
        grace: float = _GRACE,
        end: Callable[[], object] = lambda: leave(TOO_LATE),
    ) -> None:
        self._drain = drain
        self._grace = grace
        self._end = end
        self._requests = 0
        self._stop_requested = threading.Event()
        self._hurried = threading.Event()
        # Started beforehand: a signal handler must not start threads.
        self._thread = threading.Thread(target=self._watch, name="headrace-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def stop_requested(self) -> bool:
        """Whether a signal asked the process to end."""
        return self._requests > 0

    def request_stop(self) -> None:
        """A signal asked the process to end; the second time, at once."""
        # Each event is set once: a signal may come while the one before it is handled, and to set
        # an event that is being set in the same thread is a deadlock.
        self._requests += 1
        if self._requests == 1:
            self._stop_requested.set()
        elif self._requests == 2:
            self._hurried.set()

    def _watch(self) -> None:
        self._stop_requested.wait()
        self._hurried.wait(self._drain)
        time.sleep(self._grace)
        log.error(
            "the event loop is blocked and the worker cannot end; its jobs will run again",
            extra={"exit_code": TOO_LATE},
        )
        self._end()


def leave(code: int) -> NoReturn:
    """End the process although threads of handlers may be stuck. What was registered with atexit,
    the flushing of logs among it, gets a few seconds."""
    last_words = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
