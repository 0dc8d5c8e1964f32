"""An event as its readers see it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Generic, NoReturn, TypeVar

from headrace.core.clock import from_epoch_us
from headrace.core.job import ids
from headrace.core.job.envelope import (
    FORMAT,
    Envelope,
    Malformed,
    NewerFormat,
    Overrides,
    decode_envelope,
)
from headrace.core.job.failure import PayloadUnavailable, Unfit
from headrace.core.job.state import Reason
from headrace.core.payload.codecs import MSGPACK
from headrace.errors import EventError

E = TypeVar("E")

_UNREADABLE = Overrides(content="application/octet-stream")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class Event(Generic[E]):
    """One event of a topic, with all that its envelope says. `data` is the event itself, decoded
    when it is asked for."""

    __slots__ = ("_data", "_decode", "_envelope", "content_type", "place", "topic", "type")

    def __init__(
        self,
        envelope: Envelope,
        decode: Callable[[Envelope], E],
        kind: str,
    ) -> None:
        overrides = envelope.overrides
        self._envelope = envelope
        self._decode = decode
        self._data: list[E] = []
        self.topic = envelope.task.removeprefix("@")
        self.type = overrides.kind or kind
        """The name of the event's type, or what was given as `type=`."""
        self.content_type = overrides.content or MSGPACK
        self.place: str | None = None
        """Its place in the log of its shard, if it was read there; in a handler, ask
        `Delivery.place()`."""

    @property
    def id(self) -> str:
        """Stays the same through retries and replays: what to know an event again by."""
        return ids.to_text(self._envelope.job_id)

    @property
    def data(self) -> E:
        """The event as the topic's type; `EventError` if it cannot be read as one."""
        if not self._data:
            try:
                self._data.append(self._decode(self._envelope))
            except Unfit as error:
                raise EventError(self.topic, f"event {self.id}: {error}") from error
        return self._data[0]

    async def load(self, load: Callable[[Envelope], Awaitable[Envelope]]) -> None:
        """Have the payload fetched if it is kept outside of the store; if that fails, `data` says
        so when it is asked for."""
        with suppress(PayloadUnavailable, Unfit):
            self._envelope = await load(self._envelope)

    @property
    def raw(self) -> bytes:
        """The encoded event, as it travels."""
        return self._envelope.payload

    @property
    def key(self) -> str | None:
        """Events of one key are in one shard, and in order where order is wanted."""
        return self._envelope.overrides.key or None

    @property
    def source(self) -> str | None:
        """Who published it, if they say."""
        return self._envelope.overrides.source or None

    @property
    def time(self) -> datetime | None:
        """When it was published, by the publisher's clock."""
        sent_ms = self._envelope.overrides.sent_ms
        if sent_ms is None:
            sent_ms = ids.created_ms(self._envelope.job_id)
        try:
            return None if sent_ms is None else _EPOCH + timedelta(milliseconds=sent_ms)
        except OverflowError:
            return None

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, as its publisher said with `occurred_at=`; else when it was
        published."""
        occurred_us = self._envelope.overrides.occurred_us
        return self.time if occurred_us is None else from_epoch_us(occurred_us)

    @property
    def correlation_id(self) -> str | None:
        """The key that groups it with other events, as given or as passed on by the handler that
        published it."""
        return self._envelope.overrides.correlation or None

    @property
    def headers(self) -> Mapping[str, str]:
        """As published."""
        return MappingProxyType(self._envelope.overrides.headers)

    @property
    def version(self) -> int:
        """The version of the schema it was published as; `data` is of the topic's present one."""
        return self._envelope.overrides.version

    @property
    def trace_id(self) -> str | None:
        """The id of the W3C trace that it belongs to."""
        return self._traced(1)

    @property
    def span_id(self) -> str | None:
        """The id of the span, in its trace, in which it was published."""
        return self._traced(2)

    def _traced(self, part: int) -> str | None:
        found = _traced(self._envelope.overrides.headers)
        return found[part] if found else None

    def __repr__(self) -> str:
        return f"<Event {self.id} of {self.topic!r}>"


def trace_id_of(headers: Mapping[str, str]) -> str:
    """The W3C trace that headers belong to; empty if to none."""
    found = _traced(headers)
    return found[1] if found else ""


def _traced(headers: Mapping[str, str]) -> re.Match[str] | None:
    return _TRACEPARENT.fullmatch(headers["traceparent"]) if "traceparent" in headers else None


def read_event(
    data: bytes,
    job_id: ids.JobId,
    topic: str,
    decode: Callable[[Envelope], E],
    kind: str,
) -> Event[E]:
    """The event in `data`, an envelope; of other bytes, one whose `data` cannot be read."""
    try:
        return Event(decode_envelope(data), decode, kind)
    except (Malformed, NewerFormat) as error:
        problem = Unfit(Reason.MALFORMED, str(error))
    envelope = Envelope(FORMAT, job_id, f"@{topic}", data, _UNREADABLE)
    return Event(envelope, partial(_refuse, problem), kind)


def _refuse(problem: Unfit, envelope: Envelope) -> NoReturn:
    raise problem
