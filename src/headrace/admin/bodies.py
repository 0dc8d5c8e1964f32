"""Reading the bytes of a job or an event, which may be anything."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, decode_envelope
from headrace.core.job.ids import JobId
from headrace.core.payload.codecs import readable
from headrace.core.payload.packing import unpacked
from headrace.core.queue_names import is_log
from headrace.errors import HeadraceError

# Decoded values take many times the memory of their bytes: larger ones are not shown.
MOST_SHOWN = 2 * 1024 * 1024


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
    than `most`. The data of an event is decoded if its content type allows it; else its bytes. Of
    what is kept outside of the store, a dict says where it is, and how large."""
    if envelope is None:
        return None
    packing = envelope.overrides.packing
    if packing is not None and packing.offloaded:
        return {"offloaded": envelope.payload.decode("utf-8", "replace"), "bytes": packing.size}
    try:
        payload = unpacked(envelope, most).payload
    except HeadraceError:
        return None
    if len(payload) > most:
        return None
    found = readable(envelope.overrides.content, payload)
    return None if found is payload and not is_log(envelope.task) else found


def sent_at(job_id: JobId, envelope: Envelope | None) -> datetime | None:
    """When the job was made, by the clock of its sender."""
    made = ids.created_ms(job_id)
    if made is None and envelope is not None:
        made = envelope.overrides.sent_ms
    return to_datetime(made) if made else None
