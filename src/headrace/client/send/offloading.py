"""Payloads on their way to where an `Offload` keeps them, and back."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, Packing, decode_envelope, encode_envelope
from headrace.core.job.failure import PayloadUnavailable, Unfit
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import TooLarge, unpack, with_payload
from headrace.errors import OffloadError

log = logging.getLogger("headrace.client")


async def put(offload: Offload, parcel: Parcel, most: int) -> Parcel:
    """The parcel with a reference to its payload, if that is large; `OffloadError` if it cannot be
    kept. `most` bytes may go into the store."""
    envelope = decode_envelope(parcel.envelope)
    payload = envelope.payload
    if len(payload) < offload.threshold and len(payload) <= most:
        return parcel
    key = ids.to_text(ids.new_id())
    try:
        given = await _called(offload, offload.put, key, payload)
    except Exception as error:
        raise OffloadError(envelope.task, len(payload), error) from error
    reference = key if given is None else given
    if not isinstance(reference, str):
        problem = TypeError(f"put returned {reference!r}, not a text or None")
        raise OffloadError(envelope.task, len(payload), problem)
    return msgspec.structs.replace(parcel, envelope=_outside(envelope, reference))


def _outside(envelope: Envelope, reference: str) -> bytes:
    packing = envelope.overrides.packing or Packing(len(envelope.payload))
    packing = msgspec.structs.replace(packing, offloaded=True)
    overrides = msgspec.structs.replace(envelope.overrides, packing=packing)
    return encode_envelope(
        envelope.job_id, envelope.task, reference.encode(), overrides, envelope.runner
    )


def reference_in(envelope: Envelope) -> str | None:
    """Where the payload of an envelope is kept; None if it is in the envelope."""
    packing = envelope.overrides.packing
    if packing is None or not packing.offloaded:
        return None
    return envelope.payload.decode("utf-8", "replace")


async def load(offload: Offload | None, envelope: Envelope) -> Envelope:
    """The envelope with its payload, wherever that is; `PayloadUnavailable` if it cannot be had
    now, `Unfit` if it is too large."""
    reference, packing = reference_in(envelope), envelope.overrides.packing
    if reference is None or packing is None:
        return envelope
    if offload is None:
        raise PayloadUnavailable(
            f"it is kept outside of the store, as {reference!r}: give the task, the topic or the "
            "app its Offload"
        )
    try:
        data = await _called(offload, offload.get, reference)
        plain = msgspec.structs.replace(packing, offloaded=False)
        return with_payload(envelope, unpack(bytes(data), plain, offload.max_payload))
    except TooLarge as error:
        raise Unfit(Reason.OVERSIZE, str(error)) from None
    except Exception as error:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PayloadUnavailable(f"{reference!r}: {problem}") from error


async def discard(offload: Offload, envelopes: Sequence[bytes]) -> None:
    """Delete the payloads of jobs that are not in the store, or no longer needed. Never fails: what
    is left over expires where it is kept."""
    if offload.delete is None:
        return
    for data in envelopes:
        envelope = decode_envelope(data)
        reference = reference_in(envelope)
        if reference is None:
            continue
        try:
            await _called(offload, offload.delete, reference)
        except Exception as error:
            fields = {"job": ids.to_text(envelope.job_id), "task": envelope.task}
            log.warning("the payload %r was not deleted: %s", reference, error, extra=fields)


async def _called(offload: Offload, function: Callable[..., Any], *args: Any) -> Any:
    async with asyncio.timeout(offload.timeout):
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        given = await asyncio.to_thread(function, *args)
        return await given if inspect.isawaitable(given) else given
