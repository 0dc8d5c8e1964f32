"""Refuses bytes that take minutes to decode: maps with thousands of keys of equal hash.

Python's dicts and sets are quick as long as hashes differ. Those of text and bytes are secret for
each process; those of numbers, and of tuples of them, anyone can foretell: `hash(-1) == hash(-2)`,
so twenty numbers of these two make a million tuples with one hash. MessagePack allows arrays as
keys of maps. What is checked here are bytes of some size, of types that can hold such keys; all
others are decoded as they are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import msgspec

MOST_ALIKE = 64
"""How many keys of one map, or items of one set, may have the same hash."""

WORTH_CHECKING = 1024
"""Fewer bytes than this decode fast, even if all keys collide."""
_SMALLEST = 2 * MOST_ALIKE
# Only headers of more than fifteen keys begin with these, and seldom anything else does.
_MAP16, _MAP32 = b"\xde", b"\xdf"
_FIXMAP, _FIXARRAY, _FIXSTR = 0x80, 0x90, 0xA0
_ARRAYS = frozenset((*range(_FIXARRAY, _FIXSTR), 0xDC, 0xDD))
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)))
# Each level of nesting is read once more: not as often as someone likes.
_MOST_LEVELS = 16
_NUMBER = re.compile(r"[-+]?[0-9.]{1,400}([eE][-+]?[0-9]{1,20})?")
_LONG = 19

_split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.msgpack.Decoder().decode


class Collision(ValueError):
    """Too many keys have the same hash."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_ALIKE} keys of one map or set have the same hash")


def check_keys(data: bytes) -> None:
    """Refuse MessagePack of some size in which a map has keys that collide; bytes that are no
    MessagePack are a `msgspec.DecodeError`."""
    if not _may_hold_map(data):
        return
    left, found = _MOST_LEVELS * len(data), [data]
    while found:
        part = found.pop()
        left -= len(part)
        if left < 0:
            raise ValueError("it is nested too deeply")
        found += _parts_with_maps(part)


def _may_hold_map(data: bytes) -> bool:
    return _MAP16 in data or _MAP32 in data


def _parts_with_maps(data: bytes) -> Iterator[bytes]:
    """What is in an array or a map, and may hold a large map; the keys of a large one are
    checked."""
    size, start = _map_header(data)
    if size is None:
        values = _split(data) if data[0] in _ARRAYS else []
    else:
        both = _split(b"\xdd" + (2 * size).to_bytes(4, "big") + data[start:])
        values = both[1::2]
        if start > 1:
            _check_raw_keys(both[::2])
    if values and max(map(len, values)) >= _SMALLEST:
        for value in values:
            if len(value) >= _SMALLEST and _may_hold_map(part := bytes(value)):
                yield part


def _map_header(data: bytes) -> tuple[int | None, int]:
    """How many keys a map has and where they begin; None if it is no map."""
    first = data[0]
    if _FIXMAP <= first < _FIXARRAY:
        return first - _FIXMAP, 1
    if first in _MAP16 or first in _MAP32:
        start = 3 if first in _MAP16 else 5
        size = int.from_bytes(data[1:start], "big")
        if 2 * size > len(data):
            raise ValueError("a map is said to be larger than all there is")
        return size, start
    return None, 0


def _check_raw_keys(keys: list[msgspec.Raw]) -> None:
    heads = (bytes(memoryview(key)[:1])[0] for key in keys)
    odd = [key for key, head in zip(keys, heads, strict=True) if head in _ARRAYS | _EXTENSIONS]
    if len(odd) > MOST_ALIKE:
        # As the key of a map of its own, each becomes what it would be in the large one.
        made = (_decode(b"\x81" + key + b"\xc0") for key in set(map(bytes, odd)))
        counts = Counter(hash(next(iter(alone))) for alone in made)
        if max(counts.values()) > MOST_ALIKE:
            raise Collision


def check_items(plain: Any) -> None:
    """Refuse a decoded plain value in which a list or a map has items or keys that would collide as
    those of a set, or once they are numbers, ids or records."""
    found = [plain]
    while found:
        value = found.pop()
        if isinstance(value, dict):
            items, parts = list(value), list(value.values())
        elif isinstance(value, (list, tuple)):
            items = parts = list(value)
        else:
            continue
        if len(items) > MOST_ALIKE:
            _check_alike(items)
        found += [part for part in parts if isinstance(part, (dict, list, tuple))]


def _check_alike(items: list[Any]) -> None:
    alike = defaultdict(list)
    for item in items:
        number = _hash_of(item)
        if number is not None:
            alike[number].append(item)
    for group in alike.values():
        if len(group) > MOST_ALIKE and len(set(map(repr, group))) > MOST_ALIKE:
            raise Collision


def _hash_of(item: Any) -> int | None:
    """The hash of the value that an item decodes to; None if nobody can predict it."""
    if isinstance(item, str):
        return _hash_of_text(item) if len(item) >= _LONG else None
    if isinstance(item, (list, tuple)):
        return hash(tuple(map(_hash_of, item)))
    if isinstance(item, dict):
        return hash(tuple(_hash_of(item[name]) for name in sorted(item, key=repr)))
    return None if isinstance(item, bytes) or item is None else hash(item)


def _hash_of_text(text: str) -> int | None:
    try:
        if _NUMBER.fullmatch(text):
            return hash(Decimal(text))
        return hash(UUID(text)) if len(text) in (32, 36) else None
    except (ValueError, InvalidOperation):
        return None
