"""Calls an app's listeners: what has happened to jobs in this worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from headrace.client.ends.listener import Listener, Moment, WorkerEvent
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.history import decode_history
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)
from headrace.core.queue_names import group_source
from headrace.store.contract import Settlement
from headrace.worker.app import WorkerApp
from headrace.worker.consume.settler import Settled
from headrace.worker.observer import HookCaller

log = logging.getLogger("headrace.worker")

# None: nothing has happened to the job but that another worker takes it, or that it waits.
_MOMENTS: dict[type[Outcome], Moment | None] = {
    Done: "done",
    Dead: "dead",
    Retried: "retried",
    Cancelled: "cancelled",
    Held: None,
    Released: None,
    Left: None,
}


class Listeners:
    """One for a worker whose app has listeners. Nothing waits for them, and one that is slow
    misses events by itself: each has a queue of its own."""

    def __init__(self, listeners: Sequence[Listener], worker: str) -> None:
        self._worker = worker
        self._callers: dict[int, HookCaller] = {}
        self._by_kind: dict[Moment, list[tuple[Listener, HookCaller]]] = {}
        for listener in listeners:
            function = listener.function
            caller = self._callers.get(id(function)) or HookCaller(function, "listener", "events")
            self._callers[id(function)] = caller
            self._by_kind.setdefault(listener.kind, []).append((listener, caller))

    def after(self, settled: Settled) -> Settled:
        """`settled`, and then the listeners."""

        def both(settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
            settled(settlements, lost)
            self._settled(settlements, lost)

        return both

    def taken_over(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """These jobs were abandoned by their workers, and are in this one's hands."""
        for delivery in deliveries if "stalled" in self._by_kind else ():
            self._call("stalled", delivery, None)

    async def close(self) -> None:
        """Let the last calls end, for a moment."""
        await asyncio.gather(*(caller.close() for caller in self._callers.values()))

    def _settled(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        for item in settlements:
            kind = _MOMENTS[type(item.outcome)]
            if kind is not None and kind in self._by_kind and item.delivery not in lost:
                self._call(kind, item.delivery, item.outcome)

    def _call(self, kind: Moment, delivery: LeasedDelivery, outcome: Outcome | None) -> None:
        if isinstance(outcome, Retried) and outcome.deferred:
            # No attempt has failed.
            return
        task = _task_of(delivery)
        event: WorkerEvent | None = None
        for listener, caller in self._by_kind[kind]:
            if listener.tasks is None or task in listener.tasks:
                event = event or self._event(kind, task, delivery, outcome)
                caller.call(event)

    def _event(
        self, kind: Moment, task: str, delivery: LeasedDelivery, outcome: Outcome | None
    ) -> WorkerEvent:
        attempts = (
            decode_history(outcome.history).attempts if isinstance(outcome, (Dead, Retried)) else ()
        )
        took_us, last = delivery.took_us, attempts[-1] if attempts else None
        return WorkerEvent(
            kind,
            delivery.id_text,
            task,
            delivery.queue,
            self._worker,
            delivery.attempt,
            timedelta(microseconds=took_us) if took_us else None,
            outcome.reason if isinstance(outcome, Dead) else "",
            last.error_type if last else "",
            last.error_text if last else "",
            timedelta(milliseconds=outcome.delay_ms) if isinstance(outcome, Retried) else None,
        )


def listeners_of(app: WorkerApp, worker: str) -> Listeners | None:
    """None if the app has none. A name that nothing has is logged: it may be misspelt."""
    if not app.listeners:
        return None
    topics = app.topics.values()
    groups = {f"{topic.name}/{group}" for topic in topics for group in topic.subscriptions}
    for listener in app.listeners:
        for name in sorted((listener.tasks or set()) - groups):
            if name in app.tasks:
                continue
            log.warning(
                "app.on(%r, task=%r): this program declares no such task",
                *(listener.kind, name),
                extra={"task": name},
            )
    return Listeners([_with_aliases(app, listener) for listener in app.listeners], worker)


def _with_aliases(app: WorkerApp, listener: Listener) -> Listener:
    if listener.tasks is None:
        return listener
    found = [app.tasks[name].declared.names for name in listener.tasks if name in app.tasks]
    return msgspec.structs.replace(listener, tasks=listener.tasks.union(*found))


def _task_of(delivery: LeasedDelivery) -> str:
    """The task's name, as logs have it."""
    if source := group_source(delivery.queue):
        return f"{source.topic}/{source.group}"
    return delivery.task or id_and_task(delivery.envelope)[1].decode("utf-8", "replace")
