"""Publishes events: through the app's middleware, by shard, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from headrace.client.send.coalescer import BATCH
from headrace.client.send.log_sender import EventDropped
from headrace.client.send.offloading import discard, put
from headrace.client.session import ClientSession
from headrace.client.topic.event_encoder import EventEncoder
from headrace.client.topic.log_batches import (
    ClosedLogs,
    LogBatch,
    LogBatches,
    own_error,
)
from headrace.client.topic.publication import (
    Publication,
    Publish,
    PublishOutcome,
    Unpublished,
)
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.confirming import Confirming
from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.core.topic.publish_options import PublishOptions, publish_options
from headrace.errors import (
    ConfigError,
    EnqueueUnknown,
    HeadraceError,
    OffloadError,
    StoreError,
    TopicFull,
)

E = TypeVar("E")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5


class Publisher(Generic[E]):
    """Publishes to one topic. `create_groups` is awaited before events leave for the store."""

    def __init__(
        self, topic: TopicDefinition[E], create_groups: Callable[[ClientSession], Awaitable[None]]
    ) -> None:
        self._topic = topic
        self._create_groups = create_groups

    async def one(self, event: E, options: Mapping[str, Any]) -> str:
        if (through := self._topic.app.outgoing.publishing) is not None:
            return await self._one_through(through(partial(self._publish, {})), event, options)
        checked = publish_options(options)
        session = await self._topic.app.session()
        log, parcel, custom_ids = (await self._encoder(session, checked)).prepared(event)
        await self._create_groups(session)
        missing = await self._put(session, log, [parcel], custom_ids, checked.confirm)
        if missing and not isinstance(missing[0], EventDropped):
            raise own_error(missing[0], parcel)
        return ids.to_text(parcel.job_id)

    async def many(
        self, events: Iterable[E | Unpublished[E]], options: Mapping[str, Any]
    ) -> PublishOutcome[E]:
        if options.get("id") is not None:
            raise ConfigError("publish_many() has no 'id': one id cannot be that of many events")
        if not isinstance(events, Iterable):
            raise ConfigError("publish_many() takes a list of events: publish_many([…])")
        checked = publish_options(options)
        if (through := self._topic.app.outgoing.publishing) is not None:
            return await self._many_through(through(partial(self._publish, {})), events, options)
        session = await self._topic.app.session()
        outcome: PublishOutcome[E] = PublishOutcome()
        remaining = iter(events)
        batches = LogBatches(outcome, self._topic, {})
        while some := list(islice(remaining, BATCH)):
            by_log = batches.by_log(some, await self._encoder(session, checked))
            await self._send(session, batches, by_log)
        return outcome

    async def _one_through(self, publish: Publish, event: E, options: Mapping[str, Any]) -> str:
        outcome = await publish(Publication(self._topic, [event], {**options}))
        if len(outcome) != 1:
            raise ConfigError(
                f"topic {self._topic.name!r}: a middleware must publish an event once, "
                f"not {len(outcome)} times"
            )
        (result,) = outcome
        if result.error is not None:
            raise result.error
        return str(result.id)

    async def _many_through(
        self, publish: Publish, events: Iterable[E | Unpublished[E]], options: Mapping[str, Any]
    ) -> PublishOutcome[E]:
        outcome: PublishOutcome[E] = PublishOutcome()
        remaining = iter(events)
        while some := list(islice(remaining, BATCH)):
            outcome.extend(await publish(Publication(self._topic, some, {**options})))
        return outcome

    async def _publish(self, closed: ClosedLogs, publication: Publication) -> PublishOutcome[E]:
        """Publish what has passed the app's middleware."""
        options = publish_options(publication.options)
        if options.id is not None and len(publication.events) > 1:
            raise ConfigError("a middleware gave one id to many events")
        session = await self._topic.app.session()
        outcome: PublishOutcome[E] = PublishOutcome()
        batches = LogBatches(outcome, self._topic, closed)
        encoder = await self._encoder(session, options)
        await self._send(session, batches, batches.by_log(publication.events, encoder))
        return outcome

    async def _encoder(self, session: ClientSession, options: PublishOptions) -> EventEncoder:
        """An encoder with the store's time if an envelope depends on it, else this machine's."""
        if options.needs_time:
            return EventEncoder(self._topic, options, await session.store.time_ms())
        return EventEncoder(self._topic, options, self._topic.app.clock.now_ms())

    async def _send(
        self, session: ClientSession, batches: LogBatches[E], by_log: list[LogBatch[E]]
    ) -> None:
        """Shards side by side, each in its order."""
        try:
            await self._create_groups(session)
        except StoreError as error:
            for batch in by_log:
                batches.failed(batch, dict.fromkeys(range(len(batch.parcels)), error))
        else:
            sends = [self._send_batch(session, batches, batch) for batch in by_log]
            await (sends[0] if len(sends) == 1 else asyncio.gather(*sends))

    async def _send_batch(
        self, session: ClientSession, batches: LogBatches[E], batch: LogBatch[E]
    ) -> None:
        missing = await self._put(
            session, batch.log, batch.parcels, batch.custom_ids, batch.confirm
        )
        if missing:
            batches.failed(batch, missing)

    async def _put(
        self,
        session: ClientSession,
        log: str,
        parcels: Sequence[Parcel],
        custom_ids: bool,
        confirm: Confirming,
    ) -> dict[int, HeadraceError]:
        """Publish, and if the topic blocks when it is full, wait until there is room for all."""
        topic, done, pause = self._topic, 0, _FIRST_PAUSE
        if topic.offload is not None:
            try:
                parcels = [await put(topic.offload, each, topic.max_payload) for each in parcels]
            except OffloadError as error:
                return dict.fromkeys(range(len(parcels)), error)
        while True:
            missing = await session.sender.publish(
                log,
                parcels[done:] if done else parcels,
                bound=topic.bound,
                custom_ids=custom_ids,
                confirm=confirm,
            )
            if not missing:
                return {}
            taken = min(missing)
            full = isinstance(missing[taken], TopicFull)
            if topic.options.overflow != "block" or not full:
                lost = {done + at: error for at, error in missing.items()}
                await self._discard([parcels[at] for at in lost], lost.values())
                return lost
            pause = _FIRST_PAUSE if taken else min(pause * 2, _LONGEST_PAUSE)
            done += taken
            await asyncio.sleep(pause)

    async def _discard(self, parcels: Sequence[Parcel], errors: Iterable[HeadraceError]) -> None:
        """Delete what was put outside of the store for events that are surely not in the log."""
        offload = self._topic.offload
        if offload is not None and not any(isinstance(each, EnqueueUnknown) for each in errors):
            await discard(offload, [parcel.envelope for parcel in parcels])
