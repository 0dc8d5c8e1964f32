"""What can be told from the bytes of a job or an event, which may be anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, decode_envelope
from headrace.core.job.ids import JobKey
from headrace.core.masking import NOTHING_HIDDEN
from headrace.core.queue_names import is_log
from headrace.core.topic.content import readable
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.admin.redaction import Redaction

# Decoded values take many times the room of their bytes: larger ones are not for showing.
MOST_SHOWN = 2 * 1024 * 1024

decode_plain = codec.decoder(Any)


def opened(data: bytes) -> Envelope | None:
    """The envelope in `data`; None if it cannot be read."""
    try:
        return decode_envelope(data)
    except HeadraceError:
        return None


def task_of(data: bytes) -> str | None:
    envelope = opened(data)
    return None if envelope is None else envelope.task


def arguments_of(envelope: Envelope | None, most: int = MOST_SHOWN) -> Any:
    """The arguments as plain values, for showing; None if they cannot be read, or take more bytes
    than `most`. Of an event, what its content type tells; else its bytes."""
    if envelope is None or len(envelope.payload) > most:
        return None
    if is_log(envelope.task):
        return readable(envelope.overrides.content, envelope.payload)
    try:
        return decode_plain(envelope.payload)
    except codec.DECODE_ERRORS:
        return None


@dataclass(frozen=True, slots=True)
class EventInfo:
    """An event with all that its envelope says."""

    id: str
    topic: str
    key: str | None
    type: str | None
    """None if it does not say, so that it is of the type that its topic declares."""
    source: str | None
    time: datetime | None
    """When it was published, by the publisher's clock."""
    correlation_id: str | None
    headers: dict[str, str]
    content_type: str
    version: int
    size: int
    """Of its payload, in bytes."""
    data: Any
    """As plain values, for showing; bytes if its content type does not tell more; None if it is
    too large."""

    @classmethod
    def of(
        cls,
        key: JobKey,
        envelope: Envelope,
        kind: str | None = None,
        redaction: Redaction | None = None,
    ) -> EventInfo:
        """`kind` is the type that its topic declares, if that is known."""
        overrides = envelope.overrides
        masks = NOTHING_HIDDEN if redaction is None else redaction.masks(envelope)
        shown = arguments_of if redaction is None else redaction.arguments
        return cls(
            id=ids.to_text(key),
            topic=envelope.task.removeprefix("@"),
            key=masks.name(overrides.key) or None,
            type=masks.text(overrides.kind) or kind,
            source=masks.text(overrides.source) or None,
            time=sent_at(key, envelope),
            correlation_id=masks.text(overrides.correlation) or None,
            headers=masks.mapping(overrides.headers),
            content_type=overrides.content or "application/vnd.msgpack",
            version=overrides.version,
            size=len(envelope.payload),
            data=shown(envelope),
        )


def event_in(
    key: JobKey, envelope: Envelope | None, redaction: Redaction | None = None
) -> EventInfo | None:
    """The event in an envelope; None if it is a job's."""
    if envelope is None or not is_log(envelope.task):
        return None
    return EventInfo.of(key, envelope, redaction=redaction)


def sent_at(key: JobKey, envelope: Envelope | None) -> datetime | None:
    """When the job was made, by the clock of whoever made it."""
    made = ids.created_ms(key)
    if made is None and envelope is not None:
        made = envelope.overrides.sent_ms
    return to_datetime(made) if made else None
