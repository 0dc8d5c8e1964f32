"""Sends the rows of a relay to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.client.send.refusal import full_error
from headrace.core.bounds import Overflow
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.queue_names import is_log, log_source
from headrace.errors import QueueFull, StoreUnavailable, TopicFull
from headrace.store.queue_values import NO_ROOM, REFUSED, QueueBound
from headrace.store.values import IdempotencyKey

if TYPE_CHECKING:
    from headrace.app import Headrace


Taken = tuple[int, TopicFull | QueueFull | None]


class RowSender:
    """Sends to the store of an app. Every send may be a repetition: a job or event whose id is
    there already is not added. A send without an answer is repeated under the same key, so that it
    is applied once even if its jobs have ended meanwhile."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._unanswered: dict[str, tuple[list[JobId], IdempotencyKey]] = {}

    async def open(self) -> None:
        """Connect, if need be."""
        await self._app.session()

    async def send(self, destination: str, parcels: Sequence[Parcel]) -> Taken:
        """How many of them, from the first on, the store has now, and an error if not all
        fit."""
        keys = [parcel.job_id for parcel in parcels]
        before, idempotency = self._unanswered.pop(destination, ([], IdempotencyKey()))
        if before and keys[: len(before)] == before:
            keys, parcels = before, parcels[: len(before)]
        else:
            idempotency = IdempotencyKey()
        try:
            if is_log(destination):
                return await self._publish(destination, parcels, idempotency)
            return await self._append(destination, parcels, idempotency)
        except StoreUnavailable:
            self._unanswered[destination] = keys, idempotency
            raise

    async def _append(
        self, queue: str, parcels: Sequence[Parcel], idempotency: IdempotencyKey
    ) -> Taken:
        store, settings = (await self._app.session()).store, self._app.queue_settings.get(queue)
        bound = QueueBound.of(settings, self._app.max_pending_per_key)
        answer = await store.append(
            queue, parcels, may_exist=True, idempotency=idempotency, bound=bound
        )
        refused = [at for at, job_id in answer.items() if job_id in REFUSED]
        if bound is None or not refused:
            return len(parcels), None
        # Later rows may be in already, as repetitions; they are found again.
        taken = min(refused)
        overflow: Overflow = settings.overflow if settings else "reject"
        is_full = answer[taken] == NO_ROOM
        return taken, full_error(queue, bound, parcels[taken:], overflow, is_full)

    async def _publish(
        self, log: str, events: Sequence[Parcel], idempotency: IdempotencyKey
    ) -> Taken:
        session = await self._app.session()
        name, _ = log_source(log)
        topic = self._app.topics.get(name)
        if topic is not None:
            await topic.create_groups(session)
        bound = None if topic is None else topic.bound
        published = await session.store.publish(
            log, events, bound=bound, may_exist=True, idempotency=idempotency
        )
        if bound is None or published.taken == len(events):
            return published.taken, None
        return published.taken, TopicFull(name, bound.most)
