"""Puts jobs and events into the store. Sends made at the same time share one round trip."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from headrace.client.send.log_sender import LogSender, Missing
from headrace.client.send.queue_sender import (
    BoundedQueueSender,
    Instead,
    QueueSender,
    RoomWait,
    without_end,
)
from headrace.core.bounds import Overflow
from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.sends import Sends
from headrace.core.task.queue_settings import QueueSettings
from headrace.errors import QueueFull
from headrace.store.contract import Store
from headrace.store.queue_values import QueueBound
from headrace.store.topics import Bound

os.register_at_fork(after_in_child=ids.change_bucket)


class Sender:
    """Appends and publishes for one event loop. A lone send goes out at once; those made while one
    is under way go together in the next."""

    def __init__(
        self,
        store: Store,
        settings: Mapping[str, QueueSettings] | None = None,
        sends: Sends | None = None,
        max_pending_per_key: int | None = None,
    ) -> None:
        self._store = store
        self._max_pending_per_key = max_pending_per_key
        self._sends = sends or Sends()
        # The app may still declare queues: the same mapping, not a copy.
        self._settings = {} if settings is None else settings
        self.room_wait: RoomWait = without_end
        """What senders enter while they wait for room."""
        self._queues: dict[str, QueueSender] = {}
        self._logs: dict[str, LogSender] = {}
        # Of their own: sends that are not to be confirmed must not wait for those that are.
        self._confirmed_queues: dict[tuple[str, Confirming], QueueSender] = {}
        self._confirmed_logs: dict[tuple[str, Confirming], LogSender] = {}

    def send(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        custom_ids: bool = False,
        confirm: Confirming = UNCONFIRMED,
    ) -> Coroutine[Any, Any, Instead]:
        """Return when the jobs are stored, as certainly as `confirm` says. The result maps the
        index of each job that was not added to the existing job. `custom_ids` says that a caller
        chose some of the ids, so that the store looks for jobs that already ended under them."""
        # A plain function: the awaited frames of a send are few, see tests/client/test_frames.py.
        sender = self._queues.get(queue)
        if sender is None or confirm:
            sender = self._sender(queue, confirm)
        return sender.send(parcels, custom_ids)

    def send_now(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        custom_ids: bool = False,
        confirm: Confirming = UNCONFIRMED,
    ) -> Coroutine[Any, Any, Instead]:
        """As `send`, but never waits for room in a queue."""
        return self._sender(queue, confirm).send_now(parcels, custom_ids)

    def check_fits(self, queue: str, new: Sequence[JobId]) -> None:
        """Raise `QueueFull` if all of these never fit the queue, before others go for them."""
        settings = self._settings.get(queue)
        most = settings.max_length if settings else None
        if settings is not None and most is not None and len(new) > most:
            raise QueueFull(queue, most, [ids.to_text(each) for each in new], settings.overflow)

    def _sender(self, queue: str, confirm: Confirming) -> QueueSender:
        if not confirm:
            plain = self._queues.get(queue)
            if plain is None:
                plain = self._queues[queue] = self._new_sender(queue, confirm)
            return plain
        sender = self._confirmed_queues.get((queue, confirm))
        if sender is None:
            sender = self._confirmed_queues[queue, confirm] = self._new_sender(queue, confirm)
        return sender

    def _new_sender(self, queue: str, confirm: Confirming) -> QueueSender:
        settings = self._settings.get(queue)
        bound = QueueBound.of(settings, self._max_pending_per_key)
        if bound is None:
            sender = QueueSender(self._store, queue, self._sends)
        else:
            overflow: Overflow = settings.overflow if settings else "reject"
            sender = bounded = BoundedQueueSender(self._store, queue, self._sends, bound, overflow)
            bounded.room_wait = self.room_wait
        sender.confirm = confirm
        return sender

    def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        custom_ids: bool = False,
        confirm: Confirming = UNCONFIRMED,
    ) -> Coroutine[Any, Any, Missing]:
        """Append events in order. After the first that fails, none is appended; the result maps
        index to error. `bound` is always the same for a log; `custom_ids` says that an id may be
        there already."""
        sender = self._confirmed_logs.get((log, confirm)) if confirm else self._logs.get(log)
        if sender is None:
            sender = self._new_log_sender(log, bound, confirm)
        return sender.send(events, custom_ids)

    def _new_log_sender(self, log: str, bound: Bound | None, confirm: Confirming) -> LogSender:
        sender = LogSender(self._store, log, self._sends, bound)
        sender.confirm = confirm
        if confirm:
            self._confirmed_logs[log, confirm] = sender
        else:
            self._logs[log] = sender
        return sender
