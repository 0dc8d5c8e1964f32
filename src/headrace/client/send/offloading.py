"""Payloads on their way to where an `Offload` keeps them, and back."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from headrace.client.send.own_threads import OwnThreads
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, Packing, decode_envelope, encode_envelope
from headrace.core.job.failure import PayloadUnavailable, Unfit
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.core.payload.offload import Offload, objection
from headrace.core.payload.packing import TooLarge, unpack, with_payload
from headrace.errors import OffloadError
from headrace.store.loop_local import LoopLocal

log = logging.getLogger("headrace.client")

_threads: WeakKeyDictionary[Offload, LoopLocal[OwnThreads]] = WeakKeyDictionary()


class Undeleted(msgspec.Struct, frozen=True):
    """A payload that is left over."""

    reference: str
    job: str
    task: str
    problem: str

    def log(self, more: int = 0) -> None:
        """Say so, and of how many others it is true."""
        text = f"the payload {self.reference!r} was not deleted: {self.problem}"
        if more:
            text = f"{more:,} more payloads were not deleted in the last second; the latest: {text}"
        log.warning(text, extra={"job": self.job, "task": self.task})


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
    if wrong := objection(offload, reference):
        unusable = ValueError(f"put returned {reference!r}: {wrong}")
        raise OffloadError(envelope.task, len(payload), unusable)
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
    now, or its reference is none that the offload accepts, `Unfit` if it is too large."""
    reference, packing = reference_in(envelope), envelope.overrides.packing
    if reference is None or packing is None:
        return envelope
    if offload is None:
        raise PayloadUnavailable(
            f"it is kept outside of the store, as {reference!r}: give the task, the topic or the "
            "app its Offload"
        )
    # Whoever writes to the store chooses it.
    if wrong := objection(offload, reference):
        raise PayloadUnavailable(f"{reference!r}: {wrong}")
    try:
        data = await _called(offload, offload.get, reference)
        plain = msgspec.structs.replace(packing, offloaded=False)
        return with_payload(envelope, unpack(bytes(data), plain, offload.max_payload))
    except TooLarge as error:
        raise Unfit(Reason.OVERSIZE, str(error)) from None
    except Exception as error:
        raise PayloadUnavailable(f"{reference!r}: {_said(error)}") from error


async def discard(
    offload: Offload, envelopes: Sequence[bytes], failed: Callable[[Undeleted], None] | None = None
) -> None:
    """Delete the payloads of jobs that are not in the store, or no longer needed, if the offload
    accepts their references. Never fails: what is left over expires where it is kept. `failed`
    gets it, or it is logged."""
    if offload.delete is None:
        return
    for data in envelopes:
        envelope = decode_envelope(data)
        reference = reference_in(envelope)
        if reference is None:
            continue
        problem = objection(offload, reference)
        if problem is None:
            try:
                await _called(offload, offload.delete, reference)
            except Exception as error:
                problem = _said(error)
        if problem is not None:
            job = ids.to_text(envelope.job_id)
            (failed or Undeleted.log)(Undeleted(reference, job, envelope.task, problem))


async def _called(offload: Offload, function: Callable[..., Any], *args: Any) -> Any:
    try:
        async with asyncio.timeout(offload.timeout) as limit:
            if inspect.iscoroutinefunction(function):
                return await function(*args)
            given = await _threads_of(offload).call(function, *args)
            return await given if inspect.isawaitable(given) else given
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer in {offload.timeout:g} s") from None


def _threads_of(offload: Offload) -> OwnThreads:
    """Its own, so that one that hangs is in the way of no other."""
    local = _threads.setdefault(offload, LoopLocal())
    return local.get() or local.set(OwnThreads())


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
