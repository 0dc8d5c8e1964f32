"""The declaration of a topic, without publishing and subscribing."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_origin

from headrace.client.app import ClientApp
from headrace.client.topic.positions import find_event
from headrace.core.job.envelope import Envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.ids import JobId
from headrace.core.job.state import Reason
from headrace.core.payload.kinds import named
from headrace.core.payload.packing import TooLarge, unpacked
from headrace.core.queue_names import log_name
from headrace.core.topic.event import Event
from headrace.core.topic.schema import Schema
from headrace.core.topic.topic import TopicKwargs, TopicOptions, check_known, checked_key
from headrace.errors import HeadraceError
from headrace.store.topics import Bound

E = TypeVar("E")
R = TypeVar("R")
_SCHEMA_OPTIONS = ("codec", "version", "upcast")
_PAYLOAD_OPTIONS = ("compress", "compress_threshold", "offload")


class TopicDefinition(Generic[E]):
    """A topic's options, schema, key and logs, checked."""

    def __init__(
        self,
        app: ClientApp,
        name: str,
        event_type: Any,
        make_key: Callable[[E], str | None] | None,
        declared: TopicKwargs,
    ) -> None:
        self.app = app
        check_known(f"topic {name!r}: it", declared, TopicKwargs, {})
        given: dict[str, Any] = {**declared}
        payloads = app.payloads.changed(f"topic {name!r}: ", given)
        for part in _PAYLOAD_OPTIONS:
            given.pop(part, None)
        schema = {part: given.pop(part) for part in _SCHEMA_OPTIONS if part in given}
        schema["codec"] = payloads.codec
        self.options = TopicOptions(name, **given)
        self.name = name
        """The name of the topic."""
        self.event_type = event_type
        self.schema = Schema.of(name, event_type, **schema)
        self.make_key = checked_key(f"topic {name!r}: ", make_key)
        self.require_key = self.options.require_key
        """Whether publishing refuses an event without a key; a subscription may set it too."""
        self.task = log_name(name)
        """What the envelopes of its events have in a task's place."""
        self.logs = [log_name(name, shard) for shard in range(self.options.shards)]
        self.bound = _bound(self.options)
        self.max_payload = self.options.max_payload or app.max_payload
        self.offload, self.packer = payloads.offload, payloads.packer(self.max_payload)
        self.names_classes = get_origin(event_type) in (Union, UnionType)
        """Whether each event names its class, because the topic has several."""

    def decode(self, envelope: Envelope) -> E:
        """The event in an envelope, as one of the present version; or `Unfit`."""
        if envelope.overrides.packing is not None:
            envelope = self._unpacked(envelope)
        if len(envelope.payload) > self.max_payload and len(envelope.payload) > self.most_sent:
            raise Unfit(
                Reason.OVERSIZE,
                f"the event takes {len(envelope.payload):,} bytes, the limit is "
                f"{self.max_payload:,}",
            )
        event: E = self.schema.decode(envelope)
        return event

    @property
    def most_sent(self) -> int:
        """How many bytes an event may take, in the store or outside of it."""
        return self.max_payload if self.offload is None else self.offload.max_payload

    def _unpacked(self, envelope: Envelope) -> Envelope:
        try:
            return unpacked(envelope, self.max_payload)
        except TooLarge as error:
            raise Unfit(Reason.OVERSIZE, str(error)) from None
        except HeadraceError as error:
            raise Unfit(Reason.MALFORMED, str(error)) from None

    def event_of(self, envelope: Envelope) -> Event[E]:
        """The event in an envelope with what else is there."""
        return Event(envelope, self.decode, self._kind)

    async def place_of(self, job_id: JobId, shard: int) -> str | None:
        """The place of an event in the log of a shard; None if the log no longer holds it."""
        store = (await self.app.session()).store
        logged = await find_event(store, log_name(self.name, shard), job_id)
        return None if logged is None else logged.cursor

    def place_of_sync(self, job_id: JobId, shard: int) -> str | None:
        """`place_of` for code without an event loop."""
        return self.app.portal.run(self.place_of(job_id, shard))

    @property
    def _kind(self) -> str:
        return named(self.event_type)


def _bound(options: TopicOptions) -> Bound | None:
    most = options.most_per_shard
    if most is None:
        return None
    return Bound(
        most,
        drops_oldest=options.overflow == "drop_oldest",
        drops_newest=options.overflow == "drop_newest",
        gone_after_ms=options.gone_after_ms,
    )
