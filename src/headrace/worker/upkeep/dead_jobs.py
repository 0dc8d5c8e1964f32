"""Sends the jobs of `on_dead` handlers for the jobs of a task that went dead."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from headrace.client.ends.calls import death_call, send_calls
from headrace.client.send.sender import Sender
from headrace.client.task import Task
from headrace.core.job import ids
from headrace.core.job.envelope import id_and_task
from headrace.core.task.call import Call
from headrace.errors import EnqueueUnknown, SendError, StoreUnavailable
from headrace.store.contract import DeadJob, DeadJobPage
from headrace.worker.app import WorkerApp
from headrace.worker.settings import WorkerSettings
from headrace.worker.upkeep.dead_cursor import DeadCursor
from headrace.worker.upkeep.dead_walker import DeadWalker

log = logging.getLogger("headrace.worker")


class DeadJobReporter(DeadWalker):
    """Sends a job of the handler for each dead job of a task, whatever it died of. The cursor moves
    on when the store has them; sent again, under the same id, they are added once."""

    name = "dead job handler"
    scope = "on_dead"

    def __init__(
        self,
        app: WorkerApp,
        task: Task[..., Any],
        handler: Task[..., Any],
        queues: Sequence[str],
        worker: str,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(app.store, queues, worker, app.lease, task.declared.label)
        self._names = {name.encode(): name for name in task.declared.names}
        self._handler = handler
        # Without the app's bounds of queues: a death is reported also if the queue is full.
        self._sender = Sender(app.store)
        self._now_ms = now_ms

    def died(self, queue: str) -> None:
        """A job died in this worker; any task's."""
        if queue in self._next_at:
            self.poll_soon(queue)

    async def _handle_page(
        self, queue: str, cursor: DeadCursor, page: DeadJobPage
    ) -> DeadCursor | None:
        jobs, _ = cursor.unhandled(page.jobs)
        own = [job for job in reversed(jobs) if id_and_task(job.envelope)[1] in self._names]
        calls = [call for job in own if (call := self._call(queue, job)) is not None]
        try:
            await send_calls(self._sender, calls, self._now_ms())
        except EnqueueUnknown as error:
            raise StoreUnavailable(str(error), sent=True) from error
        for job in reversed(jobs):
            cursor = cursor.handled(job)
        written = await self._cursors.write(queue, cursor)
        return cursor if written and not self.stopping else None

    def _call(self, queue: str, job: DeadJob) -> Call[Any] | None:
        try:
            return death_call(self._handler, self._names[id_and_task(job.envelope)[1]], job)
        except SendError as error:
            id = ids.to_text(job.job_id)
            log.error(
                "job %s is dead, but %r cannot be called for it: %s", id, self._handler.name, error,
                extra={"job": id, "queue": queue},
            )  # fmt: skip
            self.observe(self.scope, error, {"queue": queue, "id": id})
            return None


def reporters_of(
    app: WorkerApp, settings: WorkerSettings, now_ms: Callable[[], int]
) -> list[DeadJobReporter]:
    """One for each task with an `on_dead`. A job can be sent to any queue: each looks at all that
    this worker reads, except those of tasks that all have no `on_dead`."""
    tasks = app.tasks.values()
    reported = {task.declared.queue for task in tasks if task.on_dead is not None}
    others = {task.declared.queue for task in tasks} - reported
    queues = [queue for queue in settings.queues if queue not in others]
    return [
        DeadJobReporter(app, task, task.on_dead, queues, settings.name, now_ms)
        for task in tasks
        if task.on_dead is not None and queues
    ]
