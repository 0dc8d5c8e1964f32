"""The events of one topic, as bytes and back: codec, version, and upcasts of older events."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.bounds import check_count
from headrace.core.job.envelope import Envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.job.unknown import NotKnownHere
from headrace.core.misfit import field_problem
from headrace.core.payload.codecs import Codec, CodecName, codec_name
from headrace.core.payload.content import Content, codec_for
from headrace.core.payload.kinds import culprit, named
from headrace.errors import ConfigError, EventError

# What was published is plain data: dicts, lists, texts, numbers, None and, by MessagePack, bytes
# and datetimes. By the codecs `raw` and `protobuf`, or one of the user's own, it is bytes.
Upcast = Callable[[Any, int], Any]
"""Takes what was published and its version; returns an event, or plain data of the present version
(bytes, for codecs of bytes)."""
Upcasts = Mapping[int, Callable[[Any], Any]]
"""`{1: to_2, 2: to_3}`: each takes what the one before returned, and returns plain data of the next
version; the last may return an event."""


class NoStep(Exception):
    """There is no upcast from this version."""


def checked_upcast(topic: str, upcast: Any, version: int) -> Upcast | None:
    """The upcast of a topic of this version as one function, which raises `NoStep` for a version
    that it has no step from. `ConfigError` for an upcast that cannot work."""
    if upcast is None:
        return None
    if version == 1:
        raise ConfigError(
            f"topic {topic!r}: an upcast is for older events, and there are none before version 1: "
            "say version=2 or more"
        )
    if not isinstance(upcast, Mapping):
        _check_function(topic, upcast, "upcast(old, version)", 2)
        function: Upcast = upcast
        return function
    first = version - len(upcast)
    if first < 1 or not upcast or set(upcast) != set(range(first, version)):
        raise ConfigError(
            f"topic {topic!r}: upcast must have a function for each version from its first to "
            f"{version - 1}, not for {list(upcast)}"
        )
    for step, function in upcast.items():
        _check_function(topic, function, f"the upcast from {step}", 1)
    return _stepwise(dict(upcast), version)


def _stepwise(steps: Upcasts, present: int) -> Upcast:
    def upcast(old: Any, version: int) -> Any:
        if version not in steps:
            raise NoStep
        for step in range(version, present):
            old = steps[step](old)
        return old

    return upcast


def _check_function(topic: str, function: Any, what: str, arguments: int) -> None:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(f"topic {topic!r}: {what} must be an ordinary function, not {function!r}")
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError as error:
        raise ConfigError(
            f"topic {topic!r}: {what} is called with {arguments} argument(s): {error}"
        ) from None
    except ValueError:
        # Written in C, without a signature.
        return


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
        codec: CodecName | Codec = "msgpack",
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
        if version > self.version:
            raise self._wrong(version, "upgrade the subscriber", NotKnownHere)
        codec = self._codec_of(content)
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
            # Publishers choose the text, so the cache must be bounded.
            if len(self._others) > 100:
                self._others.clear()
            self._others[content] = self._other(content)
        found = self._others[content]
        if found is None:
            raise Unfit(
                Reason.BAD_EVENT,
                f"the event comes as {content or 'MessagePack'!r}, which cannot be decoded as "
                f"{named(self.codec.event_type)}: topic {self.topic!r} has the codec "
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

    def _wrong(self, version: int, problem: str, kind: type[Unfit] = Unfit) -> Unfit:
        return kind(
            Reason.WRONG_VERSION,
            f"the event is of version {version}, this subscriber expects {self.version}: {problem}",
        )

    def _misfit(self, codec: Content, error: Exception) -> Unfit:
        return Unfit(
            Reason.BAD_EVENT,
            f"the event cannot be read as {named(codec.event_type)} by codec {codec.name!r}: "
            f"{field_problem(error)}",
        )

    def _blame(self, event: Any, error: Exception) -> str:
        found = culprit(event, self.codec.from_plain) if self.codec.plain is not bytes else None
        if found is not None and found[0]:
            return f"field {found[0]!r} cannot travel: {found[1]}"
        return f"the event cannot travel: {str(error) or type(error).__name__}"
