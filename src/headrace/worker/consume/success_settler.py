"""Sends the jobs of `on_success` handlers before the outcomes that they are about are written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headrace.client.ends.calls import send_calls, success_call
from headrace.client.send.sender import Sender
from headrace.client.task import Task
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.outcome import Done, Outcome
from headrace.core.job.verdict import decode_verdict
from headrace.core.task.call import Call
from headrace.errors import EnqueueUnknown, StoreError, StoreUnavailable
from headrace.store.contract import Settlement
from headrace.worker.app import WorkerApp
from headrace.worker.consume.settler import Settler

log = logging.getLogger("headrace.worker")


class SuccessSettler(Settler):
    """A settler for apps with `on_success` handlers. What is done waits here until the store has
    the jobs of its handlers; if the worker dies before its outcome is written, it runs again, and
    the same ids are sent. Other outcomes are not held up. If a store is away or full, it is asked
    again, as for outcomes."""

    def __init__(
        self, handlers: Mapping[bytes, Task[..., Any]], sender: Sender, *args: Any
    ) -> None:
        super().__init__(*args)
        self._handlers = handlers
        self._sender = sender
        self._unsent: list[tuple[Settlement, Call[Any]]] = []

    def put(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            handler = self._handlers.get(id_and_task(delivery.envelope)[1])
            if handler is not None and (call := self._call(handler, delivery, outcome)):
                if not self._unsent:
                    self.wake()
                self._unsent.append((Settlement(delivery, outcome), call))
                return
        super().put(delivery, outcome)

    @property
    def backlog(self) -> int:
        return super().backlog + len(self._unsent)

    async def step(self) -> float:
        trouble = await self._send() if self._unsent else None
        rest = await super().step()
        if trouble is not None:
            raise trouble
        return 0.0 if self._unsent else rest

    def _call(
        self, handler: Task[..., Any], delivery: LeasedDelivery, outcome: Done
    ) -> Call[Any] | None:
        """None if there can be none: the job is done all the same."""
        try:
            value = decode_verdict(outcome.verdict).value
            return success_call(handler, delivery.job_id, delivery.envelope, value)
        except Exception as error:
            log.error(
                "job %s is done, but %r cannot be called for it: %s",
                *(delivery.id_text, handler.name, error), extra=delivery.fields,
            )  # fmt: skip
            self.observe("on_success", error, {"queue": delivery.queue, "id": delivery.id_text})
            return None

    async def _send(self) -> StoreError | None:
        """Send what waits, and have its outcomes written; the error if the store does not take
        it."""
        unsent = tuple(self._unsent)
        try:
            await send_calls(self._sender, [call for _, call in unsent], self._now_ms())
        except StoreError as error:
            return error
        except EnqueueUnknown as error:
            return StoreUnavailable(str(error), sent=True)
        del self._unsent[: len(unsent)]
        for settlement, _ in unsent:
            super().put(settlement.delivery, settlement.outcome)
        return None


def settler_of(app: WorkerApp) -> Callable[..., Settler]:
    """Makes the settlers of a worker: plain ones if no task of the app has an `on_success`."""
    tasks = app.tasks.values()
    handlers = {
        name.encode(): task.on_success
        for task in tasks
        if task.on_success
        for name in task.declared.names
    }
    if not handlers:
        return Settler
    # Without the app's bounds of queues: in a queue that is full, jobs that have run could not end.
    return partial(SuccessSettler, handlers, Sender(app.store))
