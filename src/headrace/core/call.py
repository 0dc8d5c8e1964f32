"""A task with its arguments, not yet sent."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from headrace.core import ids
from headrace.core.ids import JobKey
from headrace.core.job import encode_envelope
from headrace.core.options import PLAIN, SendOptions

R = TypeVar("R")


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A job as a store takes it: due at once, `delay_ms` from the store's now, or at `at_ms`."""

    key: JobKey
    envelope: bytes
    delay_ms: int | None = None
    at_ms: int | None = None


class Call(Generic[R]):
    """Arguments are encoded and checked when the call is made, so sending cannot fail over them."""

    __slots__ = ("options", "payload", "queue", "returns", "task")

    def __init__(
        self, task: str, queue: str, payload: bytes, returns: Any, options: SendOptions = PLAIN
    ) -> None:
        self.task = task
        self.queue = options.queue or queue
        self.payload = payload
        self.returns = returns
        self.options = options

    def parcel(self, now_ms: int | None = None) -> Parcel:
        """This call as a new job. `now_ms`, the store's time, is needed only where `needs_time`."""
        options = self.options
        if options is PLAIN:
            key = ids.new_key()
            return Parcel(key, encode_envelope(key, self.task, self.payload))
        key = ids.new_key() if options.id is None else ids.to_key(options.id)
        overrides = options.overrides
        if options.expires_in_ms is not None and now_ms is not None:
            overrides = msgspec.structs.replace(
                overrides, expires_ms=now_ms + options.expires_in_ms
            )
        elif options.expires_at_ms is not None:
            overrides = msgspec.structs.replace(overrides, expires_ms=options.expires_at_ms)
        if options.id is not None:
            overrides = msgspec.structs.replace(overrides, sent_ms=now_ms)
        envelope = encode_envelope(key, self.task, self.payload, overrides)
        return Parcel(key, envelope, options.delay_ms, options.at_ms)

    @property
    def needs_time(self) -> bool:
        """Whether the envelope holds a moment that must be taken from the store's clock."""
        return self.options.expires_in_ms is not None

    def __repr__(self) -> str:
        return f"<Call of {self.task!r} on {self.queue!r}>"
