"""Python values as MessagePack or JSON and back, by type annotation.

msgspec carries dataclasses, structs, datetimes, UUIDs, Decimals, enums, sets and bytes by itself.
The hooks add pydantic models (recognised by their methods, so that pydantic is not imported),
paths, and numbers of other libraries, which travel as plain ones.
"""

from __future__ import annotations

import datetime
import numbers
import struct
from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import islice
from typing import Any, TypeVar

import msgspec

from headrace.core.collisions import WORTH_CHECKING, check_items, check_keys
from headrace.core.hashed_types import KEYED, Names, hashing_of, parts_of

T = TypeVar("T")

# What encoding raises for a value that cannot travel, and decoding for bytes that do not fit.
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
DECODE_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


def _plain_datetime(value: datetime.datetime) -> datetime.datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.tzinfo)
    return datetime.datetime(value.year, value.month, value.day, *clock, fold=value.fold)


# Classes that others derive from travel as their base: Django's SafeString, NumPy's float64, the
# Timestamp of pandas. A datetime is a date too.
_SUBCLASSED: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
    datetime.datetime: _plain_datetime,
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.timedelta: lambda value: datetime.timedelta(
        value.days, value.seconds, value.microseconds
    ),
}


def _to_plain(value: Any) -> Any:
    if hasattr(type(value), "model_validate") and hasattr(value, "model_dump"):
        return value.model_dump(round_trip=True, by_alias=False)
    if _is_path(type(value)):
        return str(value)
    for base, plain in _SUBCLASSED.items():
        if isinstance(value, base):
            return plain(value)
    if is_scalar(value):
        return _of_scalar(value)
    raise TypeError(f"{name_of(type(value))} is not a type that Headrace can send")


def name_of(kind: type) -> str:
    """A class by its full name: `numpy.bool` is not `bool`."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def is_scalar(value: Any) -> bool:
    """Whether it is one number, text or time of another library, which travels as a plain one:
    whatever is registered as a number, and arrays of NumPy, tensors of torch and their kind that
    have no dimension."""
    if isinstance(value, (numbers.Integral, numbers.Real)):
        return True
    # Of the class, which has no `__getattr__` that answers to everything.
    kind = type(value)
    return hasattr(kind, "ndim") and hasattr(kind, "item") and bool(value.ndim == 0)


# Of NumPy's times by the `kind` of their `dtype`. Python has none of nanoseconds, of which it would
# make plain numbers.
_TIMES = {"M": "datetime64[us]", "m": "timedelta64[us]"}


def _of_scalar(value: Any) -> Any:
    time = _TIMES.get(getattr(getattr(value, "dtype", None), "kind", ""))
    if time is None and isinstance(value, numbers.Integral):
        return int(value)
    if time is None and isinstance(value, numbers.Real):
        return float(value)
    plain = value.item()
    if time is not None and type(plain) is int:
        plain = value.astype(time).item()
    if type(plain) is type(value):
        raise TypeError(f"{name_of(type(value))} is not a type that Headrace can send")
    return plain


def _is_path(kind: type) -> bool:
    from pathlib import PurePath

    return issubclass(kind, PurePath)


def _is_number(kind: type) -> bool:
    """Whether plain numbers are turned into it. A fraction was made inexact on its way."""
    if issubclass(kind, numbers.Integral):
        return True
    return issubclass(kind, numbers.Real) and not issubclass(kind, numbers.Rational)


def _from_plain(kind: type, plain: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(plain, by_name=True)
    if _is_path(kind):
        return kind(plain)
    if _is_number(kind) and type(plain) in (int, float):
        return kind(plain)
    raise TypeError(f"{kind!r} is not a type that Headrace can receive")


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(enc_hook=_to_plain).encode
_encode_sorted = msgspec.msgpack.Encoder(enc_hook=_to_plain, order="deterministic").encode


# Parts of a value that are looked at for its size. More would cost small values what large ones
# save.
_MOST_PARTS = 256
_TEXTS = (str, bytes, bytearray)
_WHOLES = (list, tuple, set, frozenset)
SMALL = frozenset((int, float, bool, type(None)))
"""Classes of values whose size need not be looked at."""


def least_size(value: Any) -> int:
    """At least so many bytes does the value take, as far as can be said without encoding it: of 2
    GB, that would take seconds and twice the memory. Zero for most values."""
    if type(value) in _TEXTS:
        return len(value)
    size, waiting, left = 0, [value], _MOST_PARTS
    while waiting and left:
        left -= 1
        part = waiting.pop()
        kind = type(part)
        if kind in _TEXTS:
            size += len(part)
        elif kind is memoryview:
            size += part.nbytes
        elif kind in _WHOLES:
            size += len(part)
            waiting += part if len(part) <= left else islice(part, left)
        elif kind is dict:
            size += 2 * len(part)
            waiting += islice(part.values(), left)
        else:
            fields = getattr(kind, "__struct_fields__", ()) or getattr(
                kind, "__dataclass_fields__", ()
            )
            waiting += [getattr(part, name, None) for name in fields if name[0] != "_"]
    return size


def encode_alike(value: Any) -> bytes:
    """Bytes to compare by: the same for dicts and sets filled in another order, unless their items
    cannot be sorted (keys that are not text, items of several types)."""
    try:
        return _encode_sorted(value)
    except ENCODE_ERRORS:
        return encode(value)


def with_sets_sorted(value: Any) -> Any:
    """The value with a list for each set in its lists and dicts, so that it is encoded alike in
    every process; the value itself if it cannot be encoded."""
    try:
        return _sets_sorted(value)
    except ENCODE_ERRORS:
        return value


def _sets_sorted(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(map(_sets_sorted, value), key=encode_alike)
    if type(value) is dict:
        return {name: _sets_sorted(item) for name, item in value.items()}
    return [_sets_sorted(item) for item in value] if type(value) in (list, tuple) else value


def _once_per_type(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """What `make` makes of a type, kept for the next call. Types that cannot be looked up, such as
    one with a list in its `Annotated`, are read each time."""
    known = lru_cache(maxsize=1024)(make)

    @wraps(make)
    def made(kind: Any) -> T:
        try:
            hash(kind)
        except TypeError:
            return make(kind)
        return known(kind)

    return made


# Each result that is waited for asks for one, and making one takes longer than using it.
@_once_per_type
def decoder(kind: Any) -> Callable[[bytes], Any]:
    """A function that reads values of type `kind`; raises TypeError if no bytes could be one. What
    it raises for bytes that do not fit, or that would take for ever, are `DECODE_ERRORS`."""
    info = msgspec.inspect.type_info(kind)
    _check_customs(info)
    decode = msgspec.msgpack.Decoder(kind, dec_hook=_from_plain).decode
    hashing = hashing_of(info)
    if not hashing.items and not hashing.is_open:
        return decode

    def decode_checked(data: bytes) -> Any:
        if len(data) >= WORTH_CHECKING:
            check_keys(data)
            if hashing.items:
                check_items(_decode_plain(data), hashing.items)
        return decode(data)

    return decode_checked


def _check_customs(info: Any) -> None:
    """Refuse classes that neither msgspec nor the hooks know, wherever in a type they stand."""
    for part in parts_of(info):
        if isinstance(part, msgspec.inspect.CustomType):
            kind = part.cls
            if not (hasattr(kind, "model_validate") or _is_path(kind) or _is_number(kind)):
                raise TypeError(f"{kind!r} is not a type that Headrace can receive")


_decode_plain = msgspec.msgpack.Decoder().decode
_decode_plain_json = msgspec.json.Decoder().decode


@_once_per_type
def _hashed_items(kind: Any) -> frozenset[Names]:
    return hashing_of(msgspec.inspect.type_info(kind)).items


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


@_once_per_type
def json_decoder(kind: Any) -> Callable[[bytes], Any]:
    """As `decoder`, for JSON."""
    info = msgspec.inspect.type_info(kind)
    _check_customs(info)
    decode = msgspec.json.Decoder(kind, dec_hook=_from_json).decode
    hashed = hashing_of(info, KEYED).items
    if not hashed:
        # Keys without a type are text.
        return decode

    def decode_checked(data: bytes) -> Any:
        if len(data) >= WORTH_CHECKING:
            check_items(_decode_plain_json(data), hashed)
        return decode(data)

    return decode_checked


def convert(plain: Any, kind: Any) -> Any:
    """A decoded plain value as a `kind`."""
    if hashed := _hashed_items(kind):
        check_items(plain, hashed)
    return msgspec.convert(plain, kind, dec_hook=_from_plain, builtin_types=_BUILTINS)


# What MessagePack has a form of its own for, so `convert` must not expect text in its place.
_BUILTINS = (bytes,)

# The first bytes of MessagePack arrays and maps: up to 15 items, and more.
_SHORT = range(0x90, 0xA0)
_LONGER = {0xDC: struct.Struct(">H"), 0xDD: struct.Struct(">I")}
_SHORT_MAP = range(0x80, 0x90)
_LONGER_MAP = {0xDE: struct.Struct(">H"), 0xDF: struct.Struct(">I")}


def with_first(data: bytes, first: bytes, at: int = 0) -> bytes | None:
    """`data` with one more item at the head of the MessagePack array that begins at `at`; None if
    no array begins there. Results of parents travel on this way, without being decoded."""
    mark = data[at] if at < len(data) else 0
    if mark in _SHORT:
        count, after = mark - _SHORT.start, at + 1
    elif mark in _LONGER and len(data) > at + _LONGER[mark].size:
        form = _LONGER[mark]
        count, after = form.unpack_from(data, at + 1)[0], at + 1 + form.size
    else:
        return None
    return data[:at] + _header(count + 1) + first + data[after:]


def with_first_named(data: bytes, name: str, first: bytes) -> bytes | None:
    """`data`, a MessagePack map, with one more item under `name`; None if it is not a map."""
    mark = data[0] if data else 0
    if mark in _SHORT_MAP:
        count, after = mark - _SHORT_MAP.start, 1
    elif mark in _LONGER_MAP and len(data) > _LONGER_MAP[mark].size:
        form = _LONGER_MAP[mark]
        count, after = form.unpack_from(data, 1)[0], 1 + form.size
    else:
        return None
    return _header(count + 1, is_map=True) + encode(name) + first + data[after:]


def _header(count: int, *, is_map: bool = False) -> bytes:
    short, longer = (_SHORT_MAP, _LONGER_MAP) if is_map else (_SHORT, _LONGER)
    if count < len(short):
        return bytes([short.start + count])
    mark = min(longer) if count <= 0xFFFF else max(longer)
    return bytes([mark]) + longer[mark].pack(count)
