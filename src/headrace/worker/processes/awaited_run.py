"""A run in a process that a coroutine waits for."""

from __future__ import annotations

import asyncio
import time

from headrace.worker.processes.process_pool import ProcessPool
from headrace.worker.processes.task_process import TaskProcess
from headrace.worker.run.run import Run

_CANCEL_GRACE = 5.0


async def run_in_process(pool: ProcessPool, run: Run, process: TaskProcess | None = None) -> bytes:
    """The encoded result of a job, by a process of the pool, or by one that is reserved for it. If
    the coroutine is cancelled and the function has begun, it is ended and awaited if people have
    cancelled the job, or it takes too long; else, or if it is cancelled again, its process is
    killed."""
    return await _AwaitedRun(pool, run).result(process)


class _AwaitedRun:
    def __init__(self, pool: ProcessPool, run: Run) -> None:
        self._pool = pool
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[bytes] = self._loop.create_future()
        self._terminated = False

    async def result(self, process: TaskProcess | None) -> bytes:
        if self._run.started:
            # Middleware has begun; the process may have to start first.
            patience = self._run.settings.process_start_timeout
            self._run.start_clock_at(time.monotonic(), patience)
        self._pool.submit(self._run, self._done, process)
        while True:
            try:
                return await self._ended
            except asyncio.CancelledError:
                if not self._ended.cancelled():
                    return self._ended.result()
                if not await self._goes_on():
                    raise
                self._ended = self._loop.create_future()

    def _done(self, run: Run, value: bytes | None, error: BaseException | None) -> None:
        if self._ended.done():
            return
        if error is not None:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(value or b"")

    async def _goes_on(self) -> bool:
        """Whether the run is to be awaited although it was cancelled."""
        run, looked_unbegun = self._run, not self._run.started
        if self._pool.withdraw(run) or run not in self._pool:
            return False
        if looked_unbegun and not run.cancelled and not run.lease_lost:
            return self._has_just_begun()
        if not (run.cancelled or run.timed_out) or self._terminated:
            gone = self._pool.kill(run)
            if gone is not None:
                await gone.wait()
            return False
        if looked_unbegun:
            run.ends_at = time.monotonic() + _CANCEL_GRACE
        self._terminated = True
        self._pool.terminate(run)
        return True

    def _has_just_begun(self) -> bool:
        """It was held back because it had not begun, and began in the same moment: it goes on."""
        run, task = self._run, asyncio.current_task()
        run.gate, run.handed_back = "", False
        if task is not None:
            task.uncancel()
        return True
