"""What the envelope of an event says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.admin.bodies import MOST_SHOWN, sent_at
from headrace.admin.redaction import CLEAR, Redaction
from headrace.core.clock import from_epoch_us
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.ids import JobId
from headrace.core.payload.packing import size_of
from headrace.core.queue_names import is_log


@dataclass(frozen=True, slots=True)
class EventInfo:
    """An event with all that its envelope says."""

    id: str
    """The id of the event."""
    topic: str
    """The name of its topic."""
    key: str | None
    """As published."""
    type: str | None
    """None if it has none, and is of the type that its topic declares."""
    source: str | None
    """Who published it."""
    time: datetime | None
    """When it was published, by the publisher's clock."""
    occurred_at: datetime | None
    """When it happened, as its publisher said; else when it was published."""
    correlation_id: str | None
    """As published."""
    headers: dict[str, str]
    """As published."""
    content_type: str
    """How `data` travels."""
    version: int
    """That of the event type."""
    size: int
    """Of its payload, in bytes."""
    data: Any
    """As plain values, for showing; bytes if its content type is not known; a `TooLargeToShow` if
    it takes more than 2 MiB; None if it is damaged."""

    @classmethod
    def of(
        cls,
        job_id: JobId,
        envelope: Envelope,
        kind: str | None = None,
        redaction: Redaction = CLEAR,
        most: int = MOST_SHOWN,
    ) -> EventInfo:
        """`kind` is the type that its topic declares, if that is known; data of more bytes than
        `most` are not decoded."""
        overrides = envelope.overrides
        masks = redaction.masks(envelope)
        published, occurred_us = sent_at(job_id, envelope), overrides.occurred_us
        return cls(
            id=ids.to_text(job_id),
            topic=envelope.task.removeprefix("@"),
            key=masks.name(overrides.key) or None,
            type=masks.text(overrides.kind) or kind,
            source=masks.text(overrides.source) or None,
            time=published,
            occurred_at=published if occurred_us is None else from_epoch_us(occurred_us),
            correlation_id=masks.text(overrides.correlation) or None,
            headers=masks.mapping(overrides.headers),
            content_type=overrides.content or "application/vnd.msgpack",
            version=overrides.version,
            size=size_of(envelope),
            data=redaction.arguments(envelope, most),
        )


def event_in(
    job_id: JobId, envelope: Envelope | None, redaction: Redaction = CLEAR
) -> EventInfo | None:
    """The event in an envelope; None if it is a job's."""
    if envelope is None or not is_log(envelope.task):
        return None
    return EventInfo.of(job_id, envelope, redaction=redaction)
