"""What workers tell of themselves, for people to see."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

WORKERS = "workers"
"""The space of notes in which each running worker has one, under its name."""


class WorkerRecord(msgspec.Struct, frozen=True):
    """One worker, as of its last beat. It is gone from the store one lease after that."""

    name: str
    host: str
    pid: int
    started_ms: int
    """By the store's clock, as is `beat_ms`."""
    queues: dict[str, int]
    """Each queue with its weight, in the order given."""
    concurrency: int
    version: str
    """Of Headrace."""
    python: str
    running: int
    """Jobs that it holds."""
    beat_ms: int
    strict: bool = False

    @property
    def started(self) -> datetime:
        """When it began to take jobs."""
        return datetime.fromtimestamp(self.started_ms / 1000, UTC)

    @property
    def last_beat(self) -> datetime:
        """When it last said so."""
        return datetime.fromtimestamp(self.beat_ms / 1000, UTC)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerRecord).decode


def encode_record(record: WorkerRecord) -> bytes:
    return _encode(record)


def decode_record(data: bytes) -> WorkerRecord | None:
    """None for what another version may have written and this one cannot read."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
