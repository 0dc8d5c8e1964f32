"""Python values as MessagePack or JSON and back, by type annotation.

msgspec carries dataclasses, structs, datetimes, UUIDs, Decimals, enums, sets and bytes by itself.
The hooks add pydantic models (recognised by their methods, so that pydantic is not imported) and
paths.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

# What encoding raises for a value that cannot travel, and decoding for bytes that do not fit.
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
DECODE_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


# Classes that others derive from (Django's SafeString, NumPy's float64) travel as their base.
_SUBCLASSED: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}


def _to_plain(value: Any) -> Any:
    if hasattr(type(value), "model_validate") and hasattr(value, "model_dump"):
        return value.model_dump(round_trip=True, by_alias=False)
    if isinstance(value, PurePath):
        return str(value)
    for base, plain in _SUBCLASSED.items():
        if isinstance(value, base):
            return plain(value)
    raise TypeError(f"{type(value).__name__} is not a type that Headrace can send")


def _from_plain(kind: type, plain: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(plain, by_name=True)
    if issubclass(kind, PurePath):
        return kind(plain)
    raise TypeError(f"{kind!r} is not a type that Headrace can receive")


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(enc_hook=_to_plain).encode
_encode_sorted = msgspec.msgpack.Encoder(enc_hook=_to_plain, order="deterministic").encode


def encode_alike(value: Any) -> bytes:
    """Bytes to compare by: the same for dicts and sets filled in another order, unless what is in
    them has no order (keys that are not text, items of several types)."""
    try:
        return _encode_sorted(value)
    except ENCODE_ERRORS:
        return encode(value)


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """A function that reads values of type `kind`; raises TypeError if no bytes could be one."""
    _check_customs(msgspec.inspect.type_info(kind), set())
    return msgspec.msgpack.Decoder(kind, dec_hook=_from_plain).decode


def _check_customs(info: Any, seen: set[int]) -> None:
    """Refuse classes that neither msgspec nor the hooks know, wherever in a type they stand."""
    if isinstance(info, msgspec.inspect.CustomType):
        known = hasattr(info.cls, "model_validate") or issubclass(info.cls, PurePath)
        if not known:
            raise TypeError(f"{info.cls!r} is not a type that Headrace can receive")
    elif isinstance(info, msgspec.inspect.Type) and id(info) not in seen:
        # A tree's node holds nodes: each type is looked at once.
        seen.add(id(info))
        for name in info.__struct_fields__:
            parts = getattr(info, name)
            for part in parts if isinstance(parts, tuple) else (parts,):
                found = part.type if isinstance(part, msgspec.inspect.Field) else part
                _check_customs(found, seen)


def _to_json(value: Any) -> Any:
    if hasattr(type(value), "model_validate") and hasattr(value, "model_dump"):
        # As the model itself says: it alone knows how it reads bytes and times from JSON.
        return value.model_dump(mode="json", round_trip=True, by_alias=False)
    return _to_plain(value)


def _from_json(kind: type, plain: Any) -> Any:
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(encode_json(plain), by_name=True)
    return _from_plain(kind, plain)


encode_json: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_to_json).encode
"""JSON has no word for bytes, which become base64, nor for NaN and infinity, which become null."""


def json_decoder(kind: Any) -> Callable[[bytes], Any]:
    """As `decoder`, for JSON."""
    _check_customs(msgspec.inspect.type_info(kind), set())
    return msgspec.json.Decoder(kind, dec_hook=_from_json).decode


def convert(plain: Any, kind: Any) -> Any:
    """A decoded plain value as a `kind`."""
    return msgspec.convert(plain, kind, dec_hook=_from_plain, builtin_types=_BUILTINS)


# What MessagePack has a form of its own for, so `convert` must not expect text in its place.
_BUILTINS = (bytes,)
