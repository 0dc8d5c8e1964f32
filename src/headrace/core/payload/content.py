"""The codec of a topic with the type of its events: MessagePack, JSON, protobuf, bytes as they are,
or a codec of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.core.payload.codecs import (
    FORMS,
    Codec,
    Form,
    as_bytes,
    own_form,
    unknown_codec,
)
from headrace.core.payload.kinds import kinds_of, named
from headrace.errors import ConfigError


class Content(msgspec.Struct, frozen=True, eq=False):
    """A codec with the type of the events that it carries; it is itself a `Codec`."""

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


def codec_for(spec: str | Codec, event_type: Any) -> Content:
    """The codec of that name (see `CodecName`), or a codec of one's own, for events of this type;
    `ConfigError` if they cannot travel by it. Bytes travel by msgpack, json and raw, which puts
    nothing around them."""
    if not isinstance(spec, str):
        return _own(spec, event_type)
    make = _NAMED.get(spec)
    if make is None:
        raise unknown_codec(spec)
    return make(Any if event_type is object else event_type)


def _msgpack(event_type: Any) -> Content:
    return _typed(FORMS["msgpack"], event_type)


def _json(event_type: Any) -> Content:
    return _typed(FORMS["json"], event_type)


def _typed(form: Form, event_type: Any) -> Content:
    try:
        decode = form.decoder(event_type)
    except (TypeError, NameError) as error:
        problem = f"{error}{_hint(event_type, str(error))}"
        raise ConfigError(
            f"events of type {named(event_type)} cannot travel as {form.name}: {problem}"
        ) from None
    return Content(
        name=form.name,
        content_type=form.content_type,
        event_type=event_type,
        encode=form.encode,
        decode=decode,
        plain=form.decoder(Any),
        from_plain=form.encode,
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
        encode=as_bytes,
        decode=bytes,
        plain=bytes,
        from_plain=as_bytes,
        kinds=kinds_of(bytes),
    )


def _protobuf(event_type: Any) -> Content:
    try:
        from google.protobuf.message import Message
    except ImportError:
        raise ConfigError(
            "codec 'protobuf' needs the protobuf package: pip install 'headrace[protobuf]'"
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
        from_plain=as_bytes,
        kinds=(event_type,),
    )


def _own(spec: Any, event_type: Any) -> Content:
    form = own_form(spec)
    return Content(
        name=form.name,
        content_type=form.content_type,
        event_type=event_type,
        encode=form.encode,
        decode=form.decoder(event_type),
        plain=bytes,
        from_plain=as_bytes,
        kinds=kinds_of(event_type),
    )


_NAMED: dict[str, Callable[[Any], Content]] = {
    "msgpack": _msgpack,
    "json": _json,
    "raw": _raw,
    "protobuf": _protobuf,
}
