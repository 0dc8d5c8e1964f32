"""How events leave for their topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.client.coalescer import BATCH
from headrace.client.press import Press
from headrace.client.publication import Publication, Publish
from headrace.client.publishing import Prepared, PublishOutcome, Unpublished
from headrace.client.session import Session
from headrace.core.job import ids
from headrace.core.job.ids import JobKey
from headrace.core.job.parcel import Parcel
from headrace.core.topic.stamp import Wishes, wishes_of
from headrace.errors import (
    ConfigError,
    EnqueueUnknown,
    EventError,
    HeadraceError,
    SendError,
    StoreError,
    TopicFull,
)

if TYPE_CHECKING:
    from headrace.client.topic import Topic

E = TypeVar("E")

Closed = dict[str, HeadraceError]
"""Logs into which nothing more of a publish can be put, and why."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5


class Publisher(Generic[E]):
    """What one topic is sent."""

    def __init__(self, topic: Topic[E]) -> None:
        self._topic = topic

    async def one(self, event: E, options: Mapping[str, Any]) -> str:
        if (through := self._topic.app.outgoing.publishing) is not None:
            return await self._one_through(through(partial(self._publish, {})), event, options)
        wishes = wishes_of(options)
        session = await self._topic.app.session()
        log, parcel, named = (await self._press(session, wishes)).prepared(event)
        await self._topic.gather_groups(session)
        missing = await self._deposit(session, log, [parcel], named)
        if missing:
            raise _own(missing[0], parcel)
        return ids.to_text(parcel.key)

    async def many(
        self, events: Iterable[E | Unpublished[E]], options: Mapping[str, Any]
    ) -> PublishOutcome[E]:
        if options.get("id") is not None:
            raise ConfigError("publish_many() has no 'id': one id cannot be that of many events")
        wishes = wishes_of(options)
        if (through := self._topic.app.outgoing.publishing) is not None:
            return await self._many_through(through(partial(self._publish, {})), events, options)
        session = await self._topic.app.session()
        outcome: PublishOutcome[E] = PublishOutcome()
        remaining = iter(events)
        batches = _Batches(outcome, self._topic, {})
        while some := list(islice(remaining, BATCH)):
            loads = batches.loaded(some, await self._press(session, wishes))
            await self._send(session, batches, loads)
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

    async def _publish(self, closed: Closed, publication: Publication) -> PublishOutcome[E]:
        """What is left to do when a publication has passed the app's middleware."""
        wishes = wishes_of(publication.options)
        if wishes.id is not None and len(publication.events) > 1:
            raise ConfigError("a middleware gave one id to many events")
        session = await self._topic.app.session()
        outcome: PublishOutcome[E] = PublishOutcome()
        batches = _Batches(outcome, self._topic, closed)
        press = await self._press(session, wishes)
        await self._send(session, batches, batches.loaded(publication.events, press))
        return outcome

    def prepared(self, event: E, options: Mapping[str, Any]) -> Prepared:
        wishes = wishes_of(options)
        return Press(self._topic, wishes, self._topic.app.clock.now_ms()).prepared(event)

    async def _press(self, session: Session, wishes: Wishes) -> Press:
        """The store's time if something depends on it, else ours will do."""
        if wishes.needs_time:
            return Press(self._topic, wishes, await session.store.time_ms())
        return Press(self._topic, wishes, self._topic.app.clock.now_ms())

    async def _send(self, session: Session, batches: _Batches[E], loads: list[_Load[E]]) -> None:
        """Shards side by side, each in its order."""
        try:
            await self._topic.gather_groups(session)
        except StoreError as error:
            for load in loads:
                batches.failed(load, dict.fromkeys(range(len(load.parcels)), error))
        else:
            sends = [self._send_load(session, batches, load) for load in loads]
            await (sends[0] if len(sends) == 1 else asyncio.gather(*sends))

    async def _send_load(self, session: Session, batches: _Batches[E], load: _Load[E]) -> None:
        missing = await self._deposit(session, load.log, load.parcels, load.named)
        if missing:
            batches.failed(load, missing)

    async def _deposit(
        self, session: Session, log: str, parcels: Sequence[Parcel], named: bool
    ) -> dict[int, HeadraceError]:
        """Publish, and if the topic blocks when it is full, wait until there is room for all."""
        topic, done, pause = self._topic, 0, _FIRST_PAUSE
        while True:
            missing = await session.sender.publish(
                log, parcels[done:] if done else parcels, bound=topic.bound, named=named
            )
            if not missing:
                return {}
            taken = min(missing)
            full = isinstance(missing[taken], TopicFull)
            if topic.options.overflow != "block" or not full:
                return {done + at: error for at, error in missing.items()}
            pause = _FIRST_PAUSE if taken else min(pause * 2, _LONGEST_PAUSE)
            done += taken
            await asyncio.sleep(pause)


class _Load(Generic[E]):
    """The events of a batch that belong to one log, with their positions in the outcome."""

    __slots__ = ("events", "log", "named", "parcels", "places")

    def __init__(self, log: str) -> None:
        self.log = log
        self.named = False
        self.places: list[int] = []
        self.events: list[E | Unpublished[E]] = []
        self.parcels: list[Parcel] = []

    def add(self, place: int, event: E | Unpublished[E], parcel: Parcel, again: bool) -> None:
        self.places.append(place)
        self.events.append(event)
        self.parcels.append(parcel)
        if again:
            self.named = True


class _Batches(Generic[E]):
    """Sorts batches of events by log, and notes in the outcome what fails. Once something could not
    be put into a log, nothing later is: it would come before in the log."""

    def __init__(self, outcome: PublishOutcome[E], topic: Topic[E], closed: Closed) -> None:
        self._outcome = outcome
        self._topic = topic
        self._closed = closed

    def loaded(self, events: Sequence[E | Unpublished[E]], press: Press) -> list[_Load[E]]:
        """The loads of these events, without those that cannot travel."""
        loads: dict[str, _Load[E]] = {}
        keys: list[JobKey | None] = []
        for place, event in enumerate(events, len(self._outcome)):
            try:
                if isinstance(event, Unpublished):
                    log, parcel, again = self._again(event)
                else:
                    parcel = press.parcel(event)
                    log, again = press.log(parcel), press.named
            except SendError as error:
                keys.append(None)
                self._outcome.fail(place, error)
                continue
            keys.append(parcel.key)
            load = loads.get(log)
            if load is None:
                load = loads[log] = _Load(log)
            load.add(place, event, parcel, again)
        self._outcome.add(keys)
        return [load for load in loads.values() if not self._held_back(load)]

    def failed(self, load: _Load[E], missing: Mapping[int, HeadraceError]) -> None:
        """Note what is missing of a load."""
        for at, error in missing.items():
            parcel = load.parcels[at]
            event = load.events[at]
            if not isinstance(event, Unpublished):
                event = Unpublished(event, Prepared(load.log, parcel, True))
            self._outcome.fail(load.places[at], _own(error, parcel), event)
        self._closed[load.log] = error

    def _held_back(self, load: _Load[E]) -> bool:
        error = self._closed.get(load.log)
        if error is None:
            return False
        if isinstance(error, EnqueueUnknown):
            error = SendError(f"not published, because others before it failed: {error}")
        self.failed(load, dict.fromkeys(range(len(load.parcels)), error))
        return True

    def _again(self, unpublished: Unpublished[E]) -> Prepared:
        if unpublished.prepared.log not in self._topic.logs:
            raise EventError(self._topic.name, f"{unpublished!r} belongs to another topic")
        return unpublished.prepared


def _own(error: HeadraceError, parcel: Parcel) -> HeadraceError:
    """The error as told to the one whose event this is."""
    if isinstance(error, EnqueueUnknown):
        mine = EnqueueUnknown([ids.to_text(parcel.key)], str(error.__cause__))
        mine.__cause__ = error.__cause__
        return mine
    return error
