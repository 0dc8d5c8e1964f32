"""Reading the bytes of a job or an event, which may be anything, and as large as anyone likes."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from headrace.core.bounds import MAX_ENVELOPE_BESIDE_PAYLOAD
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, Packing, decode_envelope, size_beside_payload
from headrace.core.job.ids import JobId
from headrace.core.payload.codecs import readable
from headrace.core.payload.packing import unpack
from headrace.core.queue_names import is_log
from headrace.errors import HeadraceError

# Decoded values take up to seventy times the memory of their bytes.
MOST_AT_A_TIME = 8 * 1024 * 1024
"""Bytes of arguments and results that are decoded for one page, or for one row of an export."""
MOST_SHOWN = 2 * 1024 * 1024
"""Bytes of one value: larger ones are not shown."""
MOST_LISTED = 64 * 1024
"""Bytes of one value in a list, which shows its beginning."""


MOST_READ = 64 * 1024 * 1024
"""Bytes of jobs as they are in the store that are read together, after the first few, and that a
page of dead jobs holds."""
_FIRST_READ = 10
# How often the page of a job looks at its arguments: in each part in which they may be hidden.
_LOOKS = 16


class TooLargeToShow:
    """Stands in place of a value that takes too many bytes to be decoded for people."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __repr__(self) -> str:
        return f"(too large to show here: {self.size:,} bytes)"


class DecodingAllowance:
    """What is left of the bytes that may be decoded for one answer. A page of one job looks at its
    bytes several times: they count once, and again if that goes on and on."""

    def __init__(self, most: int = MOST_AT_A_TIME) -> None:
        self._left = most
        self._looks = Counter[tuple[JobId, bytes]]()
        self._since_pause = 0

    def covers(self, job_id: JobId, data: bytes, size: int) -> bool:
        """Whether these bytes of a job, unpacked so many, may be decoded; if so, they count."""
        looks = self._looks[job_id, data]
        if looks % _LOOKS == 0:
            if size > self._left:
                return False
            self._left -= size
        self._looks[job_id, data] += 1
        self._since_pause += size
        return True

    async def pause(self) -> None:
        """Let others run, if much was decoded since the last time."""
        if self._since_pause > MOST_LISTED:
            self._since_pause = 0
            await asyncio.sleep(0)

    @property
    def is_spent(self) -> bool:
        """Whether one more job might be too much."""
        return self._left < MOST_SHOWN


_allowance: ContextVar[DecodingAllowance | None] = ContextVar("headrace_allowance", default=None)


@contextmanager
def allowed(most: int = MOST_AT_A_TIME) -> Iterator[DecodingAllowance]:
    """Whatever is decoded for people in this block, by whichever questions, takes at most so many
    bytes in all; in place of values beyond stands a `TooLargeToShow`."""
    allowance = DecodingAllowance(most)
    token = _allowance.set(allowance)
    try:
        yield allowance
    finally:
        _allowance.reset(token)


def allowance_is_spent() -> bool:
    """Whether a search should go on with its next page, for which it has as much again."""
    allowance = _allowance.get()
    return allowance is not None and allowance.is_spent


async def pause_between_jobs() -> None:
    """For loops over many jobs: decoding these must not keep the event loop from all else."""
    allowance = _allowance.get()
    if allowance is not None:
        await allowance.pause()


def together(wanted: int, largest: int) -> int:
    """How many jobs of a queue to read at a time, of which so many are wanted: few at first, and
    then no more than take `MOST_READ`, if all are as large as the largest so far."""
    return min(wanted, max(1, MOST_READ // largest) if largest else _FIRST_READ)


def opened(data: bytes) -> Envelope | None:
    """The envelope in `data`; None if it cannot be read, or brings more beside its payload than a
    sender may."""
    most = MAX_ENVELOPE_BESIDE_PAYLOAD
    if len(data) > most and size_beside_payload(data) > most:
        return None
    try:
        return decode_envelope(data)
    except HeadraceError:
        return None


def task_of(data: bytes) -> str | None:
    envelope = opened(data)
    return None if envelope is None else envelope.task


def arguments_of(envelope: Envelope | None, most: int = MOST_SHOWN) -> Any:
    """The arguments as plain values, for showing; None if they cannot be read, and a
    `TooLargeToShow` if they take more bytes than `most`, or than are allowed. The data of an event
    is decoded if its content type allows it; else its bytes. Of what is kept outside of the store,
    a dict says where it is, and how large."""
    if envelope is None:
        return None
    overrides = envelope.overrides
    packing = overrides.packing
    if packing is not None and packing.offloaded:
        return {"offloaded": envelope.payload.decode("utf-8", "replace"), "bytes": packing.size}
    found = shown_value(envelope.job_id, envelope.payload, packing, overrides.content, most)
    return None if isinstance(found, bytes) and not is_log(envelope.task) else found


def shown_value(
    job_id: JobId, data: bytes, packing: Packing | None, content: str, most: int = MOST_SHOWN
) -> Any:
    """A payload or a result as plain values, or as bytes if only its task can read it; None if it
    is damaged, `TooLargeToShow` if it is that. What is compressed is measured before it is
    unpacked."""
    size = len(data) if packing is None else max(len(data), packing.size)
    allowance = _allowance.get()
    if size > most or not (allowance is None or allowance.covers(job_id, data, size)):
        return TooLargeToShow(size)
    try:
        payload = unpack(data, packing, most)
    except HeadraceError:
        return None
    with _collector_at_rest(len(payload)):
        return readable(content, payload)


@contextmanager
def _collector_at_rest(size: int) -> Iterator[None]:
    """While a large value is made, the collector would look through its parts again and again, and
    find nothing: that takes ten times as long as all else."""
    rests = size > MOST_LISTED and gc.isenabled()
    if rests:
        gc.disable()
    try:
        yield
    finally:
        if rests:
            gc.enable()


def sent_at(job_id: JobId, envelope: Envelope | None) -> datetime | None:
    """When the job was made, by the clock of its sender."""
    made = ids.created_ms(job_id)
    if made is None and envelope is not None:
        made = envelope.overrides.sent_ms
    return to_datetime(made) if made else None
