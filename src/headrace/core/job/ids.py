"""Job ids: text for people, a `JobId` of short bytes for stores and the wire.

An id that Headrace makes is a UUIDv7, which sorts by time; as bytes it takes 16, as text 36.
An id that a caller gives can be any short text; its bytes are the text behind a `=`, a byte with
which no UUIDv7 of the next three thousand years begins.

Ids that a process makes one after the other have four bytes in common, their *bucket*. A store may
keep what it knows of these jobs together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import getrandbits
from struct import Struct
from uuid import UUID

from headrace.errors import ConfigError

JobId = bytes

MAX_ID_BYTES = 256
_TEXT = 0x3D
_FOREIGN = "0x"
_VERSION, _VARIANT = 0x7000, 0x8000_0000
# Time with the version, the bucket with the variant, and what is left.
_pack = Struct(">QII").pack

BUCKET_SIZE = 32
"""How many ids a process makes with the same bucket; a few more if several threads make them."""


class _Bucket:
    """What the next ids have in common, and how many of them may follow."""

    __slots__ = ("bits", "left")

    def __init__(self) -> None:
        self.change()

    def change(self) -> None:
        self.bits = _VARIANT | getrandbits(30)
        self.left = BUCKET_SIZE


_bucket = _Bucket()
change_bucket = _bucket.change
"""Let the next id begin a bucket: for a forked process, which would go on with its parent's."""


def new_id() -> JobId:
    """A fresh UUIDv7: 48 bits of milliseconds, 12 bits of their fraction, 30 random bits that
    some ids of this process have in common, and 32 random bits."""
    if _bucket.left < 1:
        _bucket.change()
    _bucket.left -= 1
    parts = time.time_ns() * 4096 // 1_000_000
    moment = (parts >> 12 << 16) | _VERSION | (parts & 0xFFF)
    return _pack(moment, _bucket.bits, getrandbits(32))


def new_ids() -> Iterator[JobId]:
    """Fresh ids, without end, for a batch: cheaper than one by one, and they sort in the order in
    which they are made. Each is of the moment, a few hundred nanoseconds after the one before."""
    parts = time.time_ns() * 4096 // 1_000_000
    while True:
        if _bucket.left < 1:
            _bucket.change()
        _bucket.left -= 1
        moment = (parts >> 12 << 16) | _VERSION | (parts & 0xFFF)
        yield _pack(moment, _bucket.bits, getrandbits(32))
        parts += 1


def derived(job_id: JobId, data: bytes) -> JobId:
    """An id made from another and from data: the same each time. It has the time of the other."""
    # Most programs never need it, and it takes a while to load.
    import hashlib

    mark = hashlib.sha256(job_id + data).digest()
    if len(job_id) != 16:
        return job_id[: MAX_ID_BYTES - 33] + b"/" + mark.hex()[:32].encode()
    return job_id[:8] + bytes([0x80 | mark[0] & 0x3F]) + mark[1:8]


def bucket_of(job_id: JobId) -> bytes | None:
    """What an id has in common with those made before and after it, if it is a UUID."""
    return job_id[8:12] if len(job_id) == 16 and 0x80 <= job_id[8] < 0xC0 else None


def to_text(job_id: JobId) -> str:
    """The id that people see."""
    if job_id and job_id[0] == _TEXT:
        return job_id[1:].decode("utf-8", "replace")
    text = job_id.hex()
    if len(job_id) != 16:
        # Not made by us: some other program's envelope. Still a name that leads back to it.
        return _FOREIGN + text
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_id(text: str) -> JobId:
    """The bytes of an id, ours or a caller's own; `ConfigError` for what cannot be an id."""
    if not isinstance(text, str):
        raise ConfigError(f"a job id is text, not {text!r}")
    if len(text) == 36 and (packed := _packed_uuid7(text)):
        return packed
    if text.startswith(_FOREIGN) and (foreign := _foreign_id(text)):
        return foreign
    raw = text.encode("utf-8", "surrogatepass")
    if not text or len(raw) > MAX_ID_BYTES or not text.isprintable():
        raise ConfigError(
            f"a job id is 1 to {MAX_ID_BYTES} bytes of printable text, not {text[:80]!r}"
        )
    return b"=" + raw


def is_ours(text: str) -> bool:
    """Whether the text is an id as Headrace makes them, in the one form that `to_text` gives."""
    return len(text) == 36 and _packed_uuid7(text) is not None


def created_ms(job_id: JobId) -> int | None:
    """When the id was made, if Headrace made it."""
    return int.from_bytes(job_id[:6], "big") if len(job_id) == 16 and job_id[0] != _TEXT else None


def _foreign_id(text: str) -> bytes | None:
    try:
        job_id = bytes.fromhex(text.removeprefix(_FOREIGN))
    except ValueError:
        return None
    return job_id if job_id and to_text(job_id) == text else None


def _packed_uuid7(text: str) -> bytes | None:
    try:
        uuid = UUID(text)
    except ValueError:
        return None
    canonical = uuid.version == 7 and str(uuid) == text and uuid.bytes[0] != _TEXT
    return uuid.bytes if canonical else None
