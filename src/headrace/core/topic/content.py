"""How events become bytes and back: as MessagePack, JSON or protobuf, as they are, or by a codec of
one's own.

The content type travels with each event, so a topic can change its codec: what was published before
is still read by the codec that its content type names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from headrace.core import codec
from headrace.core.bounds import MAX_NAME
from headrace.core.topic.kinds import kinds_of, named
from headrace.errors import ConfigError

CodecName = Literal["msgpack", "json", "raw", "protobuf"]

MSGPACK = "application/vnd.msgpack"
"""Left out on the wire: an event that names no content type has this one."""
_ALIASES = {
    MSGPACK: "msgpack",
    "application/msgpack": "msgpack",
    "application/x-msgpack": "msgpack",
    "application/json": "json",
    "application/octet-stream": "raw",
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
}
_BYTES = (bytes, bytearray, memoryview)


@runtime_checkable
class EventCodec(Protocol):
    """What a topic can be given as its `codec`. `encode` and `decode` may raise anything: an event
    that cannot be encoded is not published, one that cannot be decoded is dead, and the error's
    text is kept."""

    @property
    def name(self) -> str:
        """For people: errors and documents name it."""

    @property
    def content_type(self) -> str:
        """A media type, for example `application/avro`; it travels with each event."""

    def encode(self, event: Any, /) -> bytes:
        """The event as bytes; called where it is published."""

    def decode(self, data: bytes, /) -> Any:
        """The event again; called where it is handled."""


class Content(msgspec.Struct, frozen=True, eq=False):
    """A codec with the type of the events that it carries; it is itself an `EventCodec`."""

    name: str
    content_type: str
    event_type: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    plain: Callable[[bytes], Any]
    """Without the type: dicts, lists and so on, or the bytes of a codec that has no such form."""
    from_plain: Callable[[Any], bytes]
    kinds: tuple[type, ...]
    """An event is an instance of one of these classes; empty if that is unknown."""

    @property
    def on_the_wire(self) -> str:
        """The content type in envelopes: none stands for MessagePack."""
        return "" if self.name == "msgpack" else self.content_type

    def built(self, plain: Any) -> Any:
        """An event of plain data, which may also hold what the codec would make plain."""
        return self.decode(self.from_plain(plain))


def codec_for(spec: str | EventCodec, event_type: Any) -> Content:
    """The codec of that name (see `CodecName`), or a codec of one's own, for events of this type;
    `ConfigError` if they cannot travel by it. Bytes travel by msgpack, json and raw, which puts
    nothing around them."""
    if not isinstance(spec, str):
        return _custom(spec, event_type)
    make = _NAMED.get(spec)
    if make is None:
        raise ConfigError(
            f"there is no codec {spec!r}: use {', '.join(map(repr, _NAMED))}, or an object with "
            "name, content_type, encode and decode"
        )
    return make(Any if event_type is object else event_type)


def codec_name(content_type: str) -> str | None:
    """The named codec of a content type on the wire; None if there is none."""
    if not content_type:
        return "msgpack"
    return _ALIASES.get(content_type.partition(";")[0].strip().lower())


def readable(content_type: str, payload: bytes) -> Any:
    """The payload decoded without its topic, if that is possible; else its bytes."""
    name = codec_name(content_type)
    try:
        return _PLAIN[name](payload) if name in _PLAIN else payload
    except codec.DECODE_ERRORS:
        return payload


def _msgpack(event_type: Any) -> Content:
    return _typed("msgpack", MSGPACK, event_type, codec.encode, codec.decoder)


def _json(event_type: Any) -> Content:
    return _typed("json", "application/json", event_type, codec.encode_json, codec.json_decoder)


def _typed(
    name: str,
    content_type: str,
    event_type: Any,
    encode: Callable[[Any], bytes],
    decoder: Callable[[Any], Callable[[bytes], Any]],
) -> Content:
    try:
        decode = decoder(event_type)
    except (TypeError, NameError) as error:
        problem = f"{error}{_hint(event_type, str(error))}"
        raise ConfigError(
            f"events of type {named(event_type)} cannot travel as {name}: {problem}"
        ) from None
    return Content(
        name=name,
        content_type=content_type,
        event_type=event_type,
        encode=encode,
        decode=decode,
        plain=decoder(Any),
        from_plain=encode,
        kinds=kinds_of(event_type),
    )


def _hint(event_type: Any, problem: str) -> str:
    if hasattr(event_type, "DESCRIPTOR"):
        return "; use codec='protobuf'"
    if "union" in problem:
        return "; make them msgspec structs with tag=True, or have a topic for each"
    return ""


def _raw(event_type: Any) -> Content:
    if event_type is not bytes:
        raise ConfigError(
            f"codec 'raw' is for events of type bytes, not {named(event_type)}: make the event "
            "type bytes, or leave the codec away"
        )
    return Content(
        name="raw",
        content_type="application/octet-stream",
        event_type=bytes,
        encode=_as_bytes,
        decode=bytes,
        plain=bytes,
        from_plain=_as_bytes,
        kinds=kinds_of(bytes),
    )


def _protobuf(event_type: Any) -> Content:
    try:
        from google.protobuf.message import Message
    except ImportError:
        raise ConfigError(
            "codec 'protobuf' needs the protobuf package: install headrace[protobuf]"
        ) from None
    if not isinstance(event_type, type) or not issubclass(event_type, Message):
        raise ConfigError(
            f"codec 'protobuf' is for message classes that protoc makes, not {named(event_type)}"
        )
    return Content(
        name="protobuf",
        content_type="application/x-protobuf",
        event_type=event_type,
        encode=event_type.SerializeToString,
        decode=event_type.FromString,
        plain=bytes,
        from_plain=_as_bytes,
        kinds=(event_type,),
    )


def _custom(spec: Any, event_type: Any) -> Content:
    _check_custom(spec)
    return Content(
        name=spec.name,
        content_type=spec.content_type,
        event_type=event_type,
        encode=_checked(spec),
        decode=spec.decode,
        plain=bytes,
        from_plain=_as_bytes,
        kinds=kinds_of(event_type),
    )


def _check_custom(spec: Any) -> None:
    if inspect.isclass(spec) or not isinstance(spec, EventCodec):
        raise ConfigError(
            "a codec is a name, or an object with name, content_type, encode and decode, not "
            f"{spec!r}"
        )
    for what in ("name", "content_type"):
        text = getattr(spec, what)
        if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME or not text.isprintable():
            raise ConfigError(f"codec {spec!r}: its {what} must be a short text, not {text!r}")
    if spec.name in _NAMED:
        raise ConfigError(f"codec {spec!r}: {spec.name!r} is the name of another: choose your own")
    if "/" not in spec.content_type:
        raise ConfigError(
            f"codec {spec.name!r}: its content_type must be a media type such as "
            f"'application/avro', not {spec.content_type!r}"
        )
    for what in ("encode", "decode"):
        function = getattr(spec, what)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise ConfigError(f"codec {spec.name!r}: its {what} must be an ordinary function")


def _checked(custom: EventCodec) -> Callable[[Any], bytes]:
    def encode(event: Any) -> bytes:
        data = custom.encode(event)
        if not isinstance(data, _BYTES):
            raise TypeError(f"codec {custom.name!r} made {named(type(data))} of it, not bytes")
        return bytes(data)

    return encode


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, _BYTES):
        raise TypeError(f"bytes are wanted, not {named(type(value))}")
    return bytes(value)


_NAMED: dict[str, Callable[[Any], Content]] = {
    "msgpack": _msgpack,
    "json": _json,
    "raw": _raw,
    "protobuf": _protobuf,
}
_PLAIN: dict[str | None, Callable[[bytes], Any]] = {
    "msgpack": codec.decoder(Any),
    "json": codec.json_decoder(Any),
}
