"""What keeps all jobs of a queue, or of a task in it, from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.admin.workers import read_workers
from headrace.core.display import plural

if TYPE_CHECKING:
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
