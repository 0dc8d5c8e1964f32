"""Performs runs in as few asyncio tasks as possible."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

from headrace.worker.run.run import Run

Work = Coroutine[Any, Any, None]


class Trampoline:
    """Runs several runs in one asyncio task. When a run waits, it keeps the task, and a new task
    takes the next run. This saves a task for each function that never waits; making one costs as
    much as all else that is done for a job. Each run has its own context."""

    def __init__(self, perform: Callable[[Run], Work]) -> None:
        self._perform = perform
        self._loop = asyncio.get_running_loop()
        self.ready: deque[Run] = deque()
        """Runs that have not begun."""
        self.free: set[asyncio.Task[None]] = set()
        """The tasks that will begin them."""
        self._next_free = 1

    def add(self, run: Run) -> None:
        self.ready.append(run)
        if not self.free:
            self._spawn(1)

    def _spawn(self, count: int) -> None:
        for _ in range(count):
            # Not loop.create_task, which makes up a name for each.
            task = asyncio.Task(self._serve(), loop=self._loop, name="headrace-job")
            self.free.add(task)

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            while self.ready:
                run = self.ready.popleft()
                run.future = task
                work, context = self._perform(run), copy_context()
                try:
                    waiting = context.run(work.send, None)
                except StopIteration:
                    self._next_free = 1
                    if task.cancelling():
                        # A function has cancelled its own task: that must not hit the next one.
                        return
                    continue
                self._pass_on(task)
                await _Rest(context, work, waiting)
                return
        finally:
            self._pass_on(task)

    def _pass_on(self, task: asyncio.Task[None]) -> None:
        """Let new tasks take the other runs: twice as many each time, since they will likely wait
        too."""
        self.free.discard(task)
        if self.ready and not self.free:
            self._spawn(min(self._next_free, len(self.ready)))
            self._next_free *= 2


class _Rest:
    """The rest of a coroutine that waits: its task waits for the same."""

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
