"""A parcel as the bytes of one row."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.job.constraints import decode_constraints, encode_constraints
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.errors import HeadraceError

_FORMAT = 1


class Unreadable(HeadraceError):
    """The row holds no parcel, or one of a newer Headrace."""


class StoredParcel(msgspec.Struct, array_like=True, frozen=True):
    """On the wire. New fields go to the end, with a default."""

    format: int
    job_id: JobId
    envelope: bytes
    delay_ms: int | None
    at_ms: int | None
    constraints: bytes

    def parcel(self, waited_ms: int) -> Parcel:
        """The parcel to send. A delay counts from when the row was written, `waited_ms` ago."""
        delay = None if self.delay_ms is None else max(0, self.delay_ms - max(0, waited_ms))
        return Parcel(
            self.job_id, self.envelope, delay, self.at_ms, decode_constraints(self.constraints)
        )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredParcel).decode


def encode_parcel(parcel: Parcel) -> bytes:
    return _encode(
        StoredParcel(
            _FORMAT,
            parcel.job_id,
            parcel.envelope,
            parcel.delay_ms,
            parcel.at_ms,
            encode_constraints(parcel.constraints),
        )
    )


def decode_parcel(data: Any) -> StoredParcel:
    """What `encode_parcel` wrote; drivers give bytes in several forms."""
    try:
        stored = _decode(bytes(data))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise Unreadable(f"the row's parcel cannot be read: {error}") from error
    if stored.format != _FORMAT:
        raise Unreadable(f"the row's parcel is of format {stored.format}: run a newer relay")
    return stored
