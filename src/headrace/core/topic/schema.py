"""The events of one topic, as bytes and back: codec, version, and what becomes of older ones."""

from __future__ import annotations

from typing import Any

from headrace.core.bounds import check_count
from headrace.core.job.envelope import Envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.topic.content import CodecName, Content, EventCodec, codec_for, codec_name
from headrace.core.topic.kinds import culprit, named
from headrace.core.topic.upcast import NoStep, Upcast, Upcasts, checked_upcast
from headrace.errors import ConfigError, EventError

_PLAIN = (dict, list, tuple, str, bytes, int, float, type(None))


class Schema:
    """What a topic's events look like: `content` and `version` are what their envelopes say."""

    def __init__(
        self,
        topic: str,
        codec: Content,
        version: int = 1,
        upcast: Upcast | Upcasts | None = None,
    ) -> None:
        self.topic = topic
        self.codec = codec
        self.content = codec.on_the_wire
        self.version = check_count(f"topic {topic!r}: version", version)
        self._decode = codec.decode
        self._upcast = checked_upcast(topic, upcast, version)
        self._others: dict[str, Content | None] = {}

    @classmethod
    def of(
        cls,
        topic: str,
        event_type: Any,
        codec: CodecName | EventCodec = "msgpack",
        version: int = 1,
        upcast: Upcast | Upcasts | None = None,
    ) -> Schema:
        """The schema of a topic as it is declared; `ConfigError` for what cannot be."""
        try:
            content = codec_for(codec, event_type)
        except ConfigError as error:
            raise ConfigError(f"topic {topic!r}: {error}") from None
        return cls(topic, content, version, upcast)

    def encode(self, event: Any) -> bytes:
        """The event as bytes, or an `EventError` that names the field that is wrong."""
        codec = self.codec
        if codec.kinds and not isinstance(event, codec.kinds):
            raise EventError(
                self.topic,
                f"its events are of type {named(codec.event_type)}, not {named(type(event))}",
            )
        try:
            return codec.encode(event)
        except Exception as error:
            raise EventError(self.topic, self._blame(event, error)) from error

    def decode(self, envelope: Envelope) -> Any:
        """The event in an envelope, as one of the present version; or `Unfit`."""
        overrides = envelope.overrides
        if overrides.version == self.version and overrides.content == self.content:
            try:
                return self._decode(envelope.payload)
            except Exception as error:
                raise self._misfit(self.codec, error) from None
        return self._decode_other(envelope.payload, overrides.content, overrides.version)

    def _decode_other(self, payload: bytes, content: str, version: int) -> Any:
        codec = self._codec_of(content)
        if version > self.version:
            raise self._wrong(version, "upgrade the subscriber")
        if version < self.version:
            return self._upcasted(codec, payload, version)
        try:
            return codec.decode(payload)
        except Exception as error:
            raise self._misfit(codec, error) from None

    def _codec_of(self, content: str) -> Content:
        if content == self.content:
            return self.codec
        if content not in self._others:
            # Whoever publishes chooses the text: what is remembered must have an end.
            if len(self._others) > 100:
                self._others.clear()
            self._others[content] = self._other(content)
        found = self._others[content]
        if found is None:
            raise Unfit(
                Reason.BAD_EVENT,
                f"the event comes as {content or 'MessagePack'!r}, of which no "
                f"{named(self.codec.event_type)} can be made: topic {self.topic!r} has the codec "
                f"{self.codec.name!r}",
            )
        return found

    def _other(self, content: str) -> Content | None:
        name = codec_name(content)
        if name == self.codec.name:
            return self.codec
        try:
            return None if name is None else codec_for(name, self.codec.event_type)
        except ConfigError:
            return None

    def _upcasted(self, codec: Content, payload: bytes, version: int) -> Any:
        if self._upcast is None:
            raise self._wrong(version, "give the topic an upcast")
        try:
            plain = codec.plain(payload)
        except Exception as error:
            raise self._misfit(codec, error) from None
        try:
            event = self._upcast(plain, version)
        except NoStep:
            raise self._wrong(version, f"give the topic an upcast from {version}") from None
        except Exception as error:
            raise self._wrong(
                version, f"the upcast raised {type(error).__name__}: {error}"
            ) from error
        return self._built(codec, event, version)

    def _built(self, codec: Content, event: Any, version: int) -> Any:
        kinds = codec.kinds
        if kinds and isinstance(event, kinds) and not isinstance(event, _PLAIN):
            return event
        try:
            return codec.built(event)
        except Exception as error:
            kind = named(codec.event_type)
            raise self._wrong(
                version, f"what the upcast made of it is no {kind}: {error}"
            ) from None

    def _wrong(self, version: int, problem: str) -> Unfit:
        return Unfit(
            Reason.WRONG_VERSION,
            f"the event is of version {version}, this subscriber expects {self.version}: {problem}",
        )

    def _misfit(self, codec: Content, error: Exception) -> Unfit:
        return Unfit(
            Reason.BAD_EVENT,
            f"the event cannot be read as {named(codec.event_type)} by codec {codec.name!r}: "
            f"{str(error) or type(error).__name__}",
        )

    def _blame(self, event: Any, error: Exception) -> str:
        found = culprit(event, self.codec.from_plain) if self.codec.plain is not bytes else None
        if found is not None and found[0]:
            return f"field {found[0]!r} cannot travel: {found[1]}"
        return f"the event cannot travel: {str(error) or type(error).__name__}"
