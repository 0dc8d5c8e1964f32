"""What ties a job to others: a place in line, a key, a limit. Most jobs have none.

Ties travel beside the envelope, because stores act on them: they decide what may run, and what an
end sets free.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headrace.core.limits import MAX_MS

MAX_PRIORITY = 100

# What holds of bytes that are read; stores check the same of those that they read by themselves.
_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=1, le=MAX_MS)]
_Ms = Annotated[int, Meta(ge=0, le=MAX_MS)]
_Priority = Annotated[int, Meta(ge=0, le=MAX_PRIORITY)]


class Limit(msgspec.Struct, array_like=True, frozen=True):
    """At most `most` starts in any `window_ms`, counted under `name` by the whole fleet; of these
    at most `burst` at once, if given, the others evenly after them."""

    name: _Text
    most: _Count
    window_ms: _Count
    burst: _Ms = 0


class Ties(msgspec.Struct, frozen=True, omit_defaults=True, rename={
    "priority": "p", "lane": "k", "width": "w", "unique": "u", "unique_for_ms": "f",
    "debounced": "b", "limits": "r", "ttl_ms": "t",
}):  # fmt: skip
    """What a store must know of a job beyond its bytes and its time."""

    priority: _Priority = 0
    lane: _Text = ""
    """Jobs of one lane run at most `width` at a time, in the order in which they came."""
    width: _Count = 1
    unique: _Text = ""
    """While a job with this name lives, another is not added but stands for the first."""
    unique_for_ms: _Count = 0
    """How much longer the name is taken after the job has ended."""
    debounced: bool = False
    """Another job with the same `unique` name takes this one's place while it is scheduled, with
    its own time, arguments and ties; once it is due, the name is free."""
    limits: tuple[Limit, ...] = ()
    ttl_ms: _Ms = 0
    """How long the verdict is kept if the store itself ends the job, without a worker."""


NO_TIES = Ties()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ties).decode


def encode_ties(ties: Ties) -> bytes:
    """As stored; nothing at all for a job without ties."""
    return b"" if ties == NO_TIES else _encode(ties)


def read_ties(data: bytes) -> Ties:
    """The ties in `data`, or a `ValueError` that says what is wrong with them."""
    if not data:
        return NO_TIES
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def decode_ties(data: bytes) -> Ties:
    """As `read_ties`, but never fails: a job must not be lost over what it was tied to. Stores take
    one with odd ties for one that has none; the worker that gets it says what is wrong."""
    try:
        return read_ties(data)
    except ValueError:
        return NO_TIES
