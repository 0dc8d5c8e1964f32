"""Takes runs to their ends in as few asyncio tasks as can be."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

from headrace.worker.run.run import Run

Work = Coroutine[Any, Any, None]


class Trampoline:
    """A strand is an asyncio task that serves run after run, until one of them has to wait: to that
    one it belongs from then on, and others are served by the next. So a function that waits for
    something is alone in its task, and one that does not costs none: making a task and having the
    loop call it takes as long as all else that is done for a job. Each run has a context of its
    own."""

    def __init__(self, begin: Callable[[Run], Work]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Run] = deque()
        self._free: set[asyncio.Task[None]] = set()
        self._next_free = 1

    def add(self, run: Run) -> None:
        self._ready.append(run)
        if not self._free:
            self._spawn(1)

    @property
    def waiting(self) -> deque[Run]:
        """Those that have not begun."""
        return self._ready

    @property
    def serving(self) -> set[asyncio.Task[None]]:
        """The strands that will begin them."""
        return self._free

    def _spawn(self, count: int) -> None:
        for _ in range(count):
            # Not loop.create_task, which makes up a name for each.
            strand = asyncio.Task(self._serve(), loop=self._loop, name="headrace-job")
            self._free.add(strand)

    async def _serve(self) -> None:
        strand = asyncio.current_task()
        assert strand is not None
        try:
            while self._ready:
                run = self._ready.popleft()
                run.future = strand
                work, context = self._begin(run), copy_context()
                try:
                    waiting = context.run(work.send, None)
                except StopIteration:
                    self._next_free = 1
                    if strand.cancelling():
                        # A function has cancelled its own task: that must not hit the next one.
                        return
                    continue
                self._pass_on(strand)
                await _Rest(context, work, waiting)
                return
        finally:
            self._pass_on(strand)

    def _pass_on(self, strand: asyncio.Task[None]) -> None:
        """Let other strands serve the others: twice as many each time, for if this one has to wait,
        so will they."""
        self._free.discard(strand)
        if self._ready and not self._free:
            self._spawn(min(self._next_free, len(self._ready)))
            self._next_free *= 2


class _Rest:
    """What is left of work that had to wait: hands on to its task what it waits for."""

    __slots__ = ("_context", "_waiting", "_work")

    def __init__(self, context: Context, work: Work, waiting: Any) -> None:
        self._context = context
        self._work = work
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, None]:
        step, work, waiting = self._context.run, self._work, self._waiting
        while True:
            try:
                try:
                    sent = yield waiting
                except BaseException as error:
                    waiting = step(work.throw, error)
                else:
                    waiting = step(work.send, sent)
            except StopIteration:
                return
