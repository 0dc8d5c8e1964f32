"""The codecs of payloads: MessagePack, JSON, and one's own. Tasks and topics have the same.

The content type travels with each payload, so a task or a topic can change its codec: what was sent
before is still read by the codec that its content type names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from headrace.core import codec
from headrace.core.bounds import MAX_NAME
from headrace.core.payload.kinds import named
from headrace.errors import ConfigError

CodecName = Literal["msgpack", "json", "raw", "protobuf"]
TaskCodecName = Literal["msgpack", "json"]

MSGPACK = "application/vnd.msgpack"
"""Left out on the wire: a payload that names no content type has this one."""
_ALIASES = {
    MSGPACK: "msgpack",
    "application/msgpack": "msgpack",
    "application/x-msgpack": "msgpack",
    "application/json": "json",
    "application/octet-stream": "raw",
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
}
NAMES = ("msgpack", "json", "raw", "protobuf")
_BYTES = (bytes, bytearray, memoryview)


@runtime_checkable
class Codec(Protocol):
    """What a task, a topic or an app can be given as its `codec`: of a task it gets a list of
    arguments, or a result; of a topic, an event. `encode` and `decode` may raise anything: what
    cannot be encoded is not sent, what cannot be decoded is dead, and the error's text is kept. A
    `content_type` beside them is what travels; else it is made of the name."""

    @property
    def name(self) -> str:
        """For people: errors and documents name it."""

    def encode(self, value: Any, /) -> bytes:
        """The value as bytes; called where it is sent.

        Args:
            value: A list of arguments, a result, or an event.
        """

    def decode(self, data: bytes, /) -> Any:
        """The value again; called where it is handled.

        Args:
            data: What `encode` made.
        """


@runtime_checkable
class EventCodec(Codec, Protocol):
    """A codec that names its content type."""

    @property
    def content_type(self) -> str:
        """A media type, for example `application/avro`; it travels with each payload."""


class Form(msgspec.Struct, frozen=True, eq=False):
    """A codec for values of any type."""

    name: str
    content_type: str
    encode: Callable[[Any], bytes]
    decoder: Callable[[Any], Callable[[bytes], Any]]
    """Makes the function that reads values of a type. One's own codec knows no types."""
    is_typed: bool = True

    @property
    def on_the_wire(self) -> str:
        """The content type in envelopes: none stands for MessagePack."""
        return "" if self.name == "msgpack" else self.content_type


FORMS = {
    "msgpack": Form("msgpack", MSGPACK, codec.encode, codec.decoder),
    "json": Form("json", "application/json", codec.encode_json, codec.json_decoder),
}
PLAIN = FORMS["msgpack"]


def task_form(spec: object) -> Form:
    """The codec of a task; `ConfigError` if arguments cannot travel by it."""
    if not isinstance(spec, str):
        return own_form(spec)
    if spec in NAMES and spec not in FORMS:
        raise ConfigError(f"codec {spec!r} is for events: arguments travel by 'msgpack' or 'json'")
    if spec not in FORMS:
        raise unknown_codec(spec, tuple(FORMS))
    return FORMS[spec]


def unknown_codec(name: str, known: tuple[str, ...] = NAMES) -> ConfigError:
    return ConfigError(
        f"there is no codec {name!r}: use {', '.join(map(repr, known))}, or an object with "
        "name, encode and decode"
    )


def own_form(spec: Any) -> Form:
    """A codec of one's own, checked."""
    _check_own(spec)
    content_type = content_type_of(spec)
    return Form(spec.name, content_type, _checked(spec), lambda kind: spec.decode, is_typed=False)


def content_type_of(spec: Codec) -> Any:
    return getattr(spec, "content_type", f"application/x-{spec.name}")


def codec_name(content_type: str) -> str | None:
    """The named codec of a content type on the wire; None if there is none."""
    if not content_type:
        return "msgpack"
    return _ALIASES.get(content_type.partition(";")[0].strip().lower())


def form_of(content_type: str) -> Form | None:
    """The codec of a content type on the wire, if it has a name."""
    return FORMS.get(codec_name(content_type) or "")


_readers: dict[str | None, Callable[[bytes], Any]] = {
    name: form.decoder(Any) for name, form in FORMS.items()
}


def readable(content_type: str, payload: bytes) -> Any:
    """The payload decoded without its topic or task, if that is possible; else its bytes."""
    read = _readers.get(codec_name(content_type))
    try:
        return payload if read is None else read(payload)
    except codec.DECODE_ERRORS:
        return payload


def _check_own(spec: Any) -> None:
    if inspect.isclass(spec) or not isinstance(spec, Codec):
        raise ConfigError(
            f"a codec is a name, or an object with name, encode and decode, not {spec!r}"
        )
    texts: dict[str, Any] = {"name": spec.name, "content_type": content_type_of(spec)}
    for what, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME or not text.isprintable():
            raise ConfigError(f"codec {spec!r}: its {what} must be a short text, not {text!r}")
    if spec.name in NAMES:
        raise ConfigError(f"codec {spec!r}: {spec.name!r} is the name of another: choose your own")
    content_type = content_type_of(spec)
    if "/" not in content_type:
        raise ConfigError(
            f"codec {spec.name!r}: its content_type must be a media type such as "
            f"'application/avro', not {content_type!r}"
        )
    for what in ("encode", "decode"):
        function = getattr(spec, what)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise ConfigError(f"codec {spec.name!r}: its {what} must be an ordinary function")


def _checked(own: Codec) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        data = own.encode(value)
        if not isinstance(data, _BYTES):
            raise TypeError(f"codec {own.name!r} made {named(type(data))} of it, not bytes")
        return bytes(data)

    return encode


def as_bytes(value: Any) -> bytes:
    """The value if it is bytes."""
    if not isinstance(value, _BYTES):
        raise TypeError(f"bytes are wanted, not {named(type(value))}")
    return bytes(value)
