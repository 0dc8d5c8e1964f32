"""What ties a job to others: a place in line, a key, a limit. Most jobs have none.

Ties travel beside the envelope, because stores act on them: they decide what may run, and what an
end sets free.
"""

from __future__ import annotations

import msgspec

MAX_PRIORITY = 100


class Limit(msgspec.Struct, array_like=True, frozen=True):
    """At most `most` starts in any `window_ms`, counted under `name` by the whole fleet; of these
    at most `burst` at once, if given, the others evenly after them."""

    name: str
    most: int
    window_ms: int
    burst: int = 0


class Ties(msgspec.Struct, frozen=True, omit_defaults=True, rename={
    "priority": "p", "lane": "k", "width": "w", "unique": "u", "unique_for_ms": "f",
    "debounced": "b", "limits": "r", "ttl_ms": "t",
}):  # fmt: skip
    """What a store must know of a job beyond its bytes and its time."""

    priority: int = 0
    lane: str = ""
    """Jobs of one lane run at most `width` at a time, in the order in which they came."""
    width: int = 1
    unique: str = ""
    """While a job with this name lives, another is not added but stands for the first."""
    unique_for_ms: int = 0
    """How much longer the name is taken after the job has ended."""
    debounced: bool = False
    """Another job with the same `unique` name takes this one's place while it is scheduled, with
    its own time, arguments and ties; once it is due, the name is free."""
    limits: tuple[Limit, ...] = ()
    ttl_ms: int = 0
    """How long the verdict is kept if the store itself ends the job, without a worker."""


NO_TIES = Ties()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ties).decode


def encode_ties(ties: Ties) -> bytes:
    """As stored; nothing at all for a job without ties."""
    return b"" if ties == NO_TIES else _encode(ties)


def decode_ties(data: bytes) -> Ties:
    """Never fails: a job must not be lost over what it was tied to."""
    if not data:
        return NO_TIES
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return NO_TIES
