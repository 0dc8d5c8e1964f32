"""Puts jobs and events into the store. Sends made at the same time share one round trip."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn

from headrace.client.send.coalescer import Coalescer, bounded
from headrace.client.send.log_sender import LogSender, Missing
from headrace.client.send.refusal import full_error
from headrace.client.send.tries import Tries
from headrace.client.send.unsent import TROUBLE, Interrupted, Unsent, texts
from headrace.core.bounds import Overflow
from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.sends import Sends
from headrace.core.task.queue_settings import QueueSettings
from headrace.errors import (
    EnqueueUnknown,
    HeadraceError,
    QueueFull,
    StoreError,
)
from headrace.store.contract import Store
from headrace.store.queue_values import NO_ROOM, REFUSED, QueueBound
from headrace.store.topics import Bound
from headrace.store.values import IdempotencyKey

_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.5

Instead = Mapping[int, JobId]
"""Index of each parcel that was not added, with the id of the existing job."""


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
        self._queues: dict[str, _QueueSender] = {}
        self._logs: dict[str, LogSender] = {}
        # Of their own: sends that are not to be confirmed must not wait for those that are.
        self._confirmed_queues: dict[tuple[str, Confirming], _QueueSender] = {}
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

    def _sender(self, queue: str, confirm: Confirming) -> _QueueSender:
        if not confirm:
            plain = self._queues.get(queue)
            if plain is None:
                plain = self._queues[queue] = self._new_sender(queue, confirm)
            return plain
        sender = self._confirmed_queues.get((queue, confirm))
        if sender is None:
            sender = self._confirmed_queues[queue, confirm] = self._new_sender(queue, confirm)
        return sender

    def _new_sender(self, queue: str, confirm: Confirming) -> _QueueSender:
        settings = self._settings.get(queue)
        bound = QueueBound.of(settings, self._max_pending_per_key)
        if bound is None:
            sender = _QueueSender(self._store, queue, self._sends)
        else:
            overflow: Overflow = settings.overflow if settings else "reject"
            sender = _BoundedQueueSender(self._store, queue, self._sends, bound, overflow)
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


class _QueueSender(Coalescer[JobId]):
    """Appends the jobs of one queue."""

    confirm = UNCONFIRMED

    def __init__(
        self, store: Store, queue: str, sends: Sends, bound: QueueBound | None = None
    ) -> None:
        super().__init__()
        self._store = store
        self._queue = queue
        self._sends = sends
        self._bound = bound

    def send_now(self, parcels: Sequence[Parcel], custom_ids: bool) -> Coroutine[Any, Any, Instead]:
        """As `send`; a bounded queue may wait there."""
        return self.send(parcels, custom_ids)

    def _put(self, parcels: Sequence[Parcel], custom_ids: bool) -> Awaitable[Instead]:
        put = (self._append if len(parcels) == 1 else self._append_all)(parcels, custom_ids)
        if self._sends.on:
            return self._sends.timed(self._queue, parcels, put, REFUSED.__contains__)
        return put

    async def _append_all(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        """In batches that are bounded both ways: many small jobs, or a few large ones."""
        instead: dict[int, JobId] = {}
        done = 0
        for batch in bounded(parcels):
            try:
                answer = await self._append(batch, custom_ids)
            except HeadraceError as error:
                raise Interrupted(done, instead, error) from error
            for position, job_id in answer.items():
                instead[done + position] = job_id
            done += len(batch)
        return instead

    async def _append(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        """Append in one step, and again after a lost answer: the jobs are added once."""
        tries: Tries | None = None
        idempotency = IdempotencyKey()
        try:
            while True:
                try:
                    return await self._store.append(
                        self._queue,
                        parcels,
                        may_exist=custom_ids or (tries is not None and tries.unsure),
                        idempotency=idempotency,
                        bound=self._bound,
                        confirm=self.confirm,
                    )
                except StoreError as error:
                    tries = tries or Tries(parcels)
                    pause = tries.pause_after(error)
                await asyncio.sleep(pause)
        except (EnqueueUnknown, asyncio.CancelledError):
            self._store.give_up(idempotency)
            raise


class _BoundedQueueSender(_QueueSender):
    """Appends the jobs of a queue that may be full: waits until there is room, or raises
    `QueueFull` with those that were not stored, as `overflow` says."""

    def __init__(
        self, store: Store, queue: str, sends: Sends, bound: QueueBound, overflow: Overflow
    ) -> None:
        super().__init__(store, queue, sends, bound)
        self._limits = bound
        self._overflow = overflow

    async def send(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        if self._overflow != "block":
            return await self.send_now(parcels, custom_ids)
        instead: dict[int, JobId] = {}
        left, pause = list(enumerate(parcels)), _FIRST_WAIT
        while True:
            try:
                answer = await super().send([parcel for _, parcel in left], custom_ids)
            except TROUBLE as error:
                self._stop(error, parcels, instead, [parcel for _, parcel in left])
            instead |= {left[at][0]: job_id for at, job_id in answer.items() if job_id != NO_ROOM}
            refused = [left[at] for at, job_id in answer.items() if job_id == NO_ROOM]
            if not refused:
                self._check(parcels, instead)
                return instead
            # Nobody says when there is room: with many senders, that would cost more than asking.
            pause = _FIRST_WAIT if len(refused) < len(left) else min(pause * 2, _LONGEST_WAIT)
            left = refused
            await asyncio.sleep(pause)

    def _stop(
        self,
        error: HeadraceError,
        parcels: Sequence[Parcel],
        instead: Instead,
        left: Sequence[Parcel],
    ) -> NoReturn:
        """Raise the error of a sender that waits: `left` were sent last, the others before."""
        refused = [parcels[at] for at, job_id in instead.items() if job_id in REFUSED]
        unsent = Unsent()
        unsent.skip(texts(refused))
        unsent.fail(error, texts(left))
        unsent.check(stored=len(refused) + len(left) < len(parcels))
        raise error

    async def send_now(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        answer = await super().send(parcels, custom_ids)
        self._check(parcels, answer)
        return answer

    def _check(self, parcels: Sequence[Parcel], answer: Instead) -> None:
        if refused := [parcels[at] for at, job_id in answer.items() if job_id in REFUSED]:
            is_full = NO_ROOM in answer.values()
            raise full_error(self._queue, self._limits, refused, self._overflow, is_full)
