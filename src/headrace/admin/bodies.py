"""What can be told from a job's bytes, which may be anything."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.client.job import to_datetime
from headrace.core import codec, ids
from headrace.core.ids import JobKey
from headrace.core.job import Envelope, decode_envelope
from headrace.errors import HeadraceError

# Decoded values take many times the room of their bytes: larger ones are not for showing.
_MOST_SHOWN = 16 * 1024 * 1024

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


def arguments_of(envelope: Envelope | None) -> Any:
    """The arguments as plain values, for showing; None if they cannot be read."""
    if envelope is None or len(envelope.payload) > _MOST_SHOWN:
        return None
    try:
        return decode_plain(envelope.payload)
    except codec.DECODE_ERRORS:
        return None


def sent_at(key: JobKey, envelope: Envelope | None) -> datetime | None:
    """When the job was made, by the clock of whoever made it."""
    made = ids.created_ms(key)
    if made is None and envelope is not None:
        made = envelope.overrides.sent_ms
    return to_datetime(made) if made else None
