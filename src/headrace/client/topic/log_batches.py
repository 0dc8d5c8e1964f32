"""The events of one publish, by the log they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from headrace.client.send.log_sender import EventDropped
from headrace.client.topic.event_encoder import EventEncoder
from headrace.client.topic.publication import (
    PreparedEvent,
    PublishOutcome,
    Unpublished,
)
from headrace.client.topic.topic_definition import TopicDefinition
from headrace.core.confirming import Confirming
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.errors import EnqueueUnknown, EventError, HeadraceError, SendError

E = TypeVar("E")

ClosedLogs = dict[str, HeadraceError]
"""Logs into which nothing more of a publish goes, each with the error that stopped it."""


class LogBatch(Generic[E]):
    """The events of a batch that belong to one log, with their positions in the outcome."""

    __slots__ = ("confirm", "custom_ids", "events", "log", "parcels", "positions")

    def __init__(self, log: str, confirm: Confirming) -> None:
        self.log = log
        self.confirm = confirm
        self.custom_ids = False
        self.positions: list[int] = []
        self.events: list[E | Unpublished[E]] = []
        self.parcels: list[Parcel] = []

    def add(self, position: int, event: E | Unpublished[E], parcel: Parcel, again: bool) -> None:
        self.positions.append(position)
        self.events.append(event)
        self.parcels.append(parcel)
        if again:
            self.custom_ids = True


class LogBatches(Generic[E]):
    """Sorts events by log, and records failures in the outcome. After a failure nothing more goes
    into that log: it would come before what failed."""

    def __init__(
        self, outcome: PublishOutcome[E], topic: TopicDefinition[E], closed: ClosedLogs
    ) -> None:
        self._outcome = outcome
        self._topic = topic
        self._closed = closed

    def by_log(
        self, events: Sequence[E | Unpublished[E]], encoder: EventEncoder
    ) -> list[LogBatch[E]]:
        """The events that can travel, a batch for each log."""
        found: dict[str, LogBatch[E]] = {}
        keys: list[JobId | None] = []
        for position, event in enumerate(events, len(self._outcome)):
            try:
                if isinstance(event, Unpublished):
                    log, parcel, again = self._again(event)
                else:
                    parcel = encoder.parcel(event)
                    log, again = encoder.log(parcel), encoder.custom_ids
            except SendError as error:
                keys.append(None)
                self._outcome.fail(position, error)
                continue
            keys.append(parcel.job_id)
            batch = found.get(log)
            if batch is None:
                batch = found[log] = LogBatch(log, encoder.confirm)
            batch.add(position, event, parcel, again)
        self._outcome.add(keys)
        return [batch for batch in found.values() if not self._held_back(batch)]

    def failed(self, batch: LogBatch[E], missing: Mapping[int, HeadraceError]) -> None:
        """Record the errors of events that are missing of a batch, and which were dropped."""
        for at, error in missing.items():
            if isinstance(error, EventDropped):
                self._outcome.drop(batch.positions[at])
                continue
            parcel = batch.parcels[at]
            event = batch.events[at]
            if not isinstance(event, Unpublished):
                event = Unpublished(event, PreparedEvent(batch.log, parcel, True))
            self._outcome.fail(batch.positions[at], own_error(error, parcel), event)
            self._closed[batch.log] = error

    def _held_back(self, batch: LogBatch[E]) -> bool:
        error = self._closed.get(batch.log)
        if error is None:
            return False
        if isinstance(error, EnqueueUnknown):
            error = SendError(f"not published, because others before it failed: {error}")
        self.failed(batch, dict.fromkeys(range(len(batch.parcels)), error))
        return True

    def _again(self, unpublished: Unpublished[E]) -> PreparedEvent:
        if unpublished.prepared.log not in self._topic.logs:
            raise EventError(self._topic.name, f"{unpublished!r} belongs to another topic")
        return unpublished.prepared


def own_error(error: HeadraceError, parcel: Parcel) -> HeadraceError:
    """The error, naming only this event."""
    if isinstance(error, EnqueueUnknown):
        mine = EnqueueUnknown([ids.to_text(parcel.job_id)], str(error.__cause__))
        mine.__cause__ = error.__cause__
        return mine
    return error
