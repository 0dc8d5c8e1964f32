"""What keeps all jobs of a queue, or of a task in it, from starting; and why one comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.admin.workers import read_workers
from headrace.core.display import plural

if TYPE_CHECKING:
    from headrace.core.job.history import History
    from headrace.store.contract import Store


async def obstacle_of(store: Store, queue: str, task: str | None, where: str) -> str:
    """What is in the way, as part of a sentence that names the queue as `where`; empty if nothing
    is."""
    control = await store.control(queue)
    if control.paused:
        return f"{where} is paused"
    if task in control.paused_tasks:
        return f"task {task!r} is paused in queue {queue!r}"
    readers = [info for info in await read_workers(store) if queue in info.queues]
    if not readers:
        return f"no worker is running that reads {where}"
    bounds = [info.queue_concurrency.get(queue) for info in readers]
    most = max((bound for bound in bounds if bound is not None), default=None)
    if most is None or None in bounds:
        return ""
    running = (await store.count(queue)).running
    return f"{where} runs {plural(most, 'job')} at a time" if running >= most else ""


def coming_again(history: History, error: str) -> str:
    """Why a job that was begun before is scheduled, as the end of a sentence."""
    if history.payload_misses:
        times = plural(history.payload_misses, "time")
        return f", to try again: its payload could not be had, {times} so far"
    again = f", to run again after {error}" if error else ""
    if not history.defers:
        return again
    return f"{again}; it has been put off {plural(history.defers, 'time')}"
