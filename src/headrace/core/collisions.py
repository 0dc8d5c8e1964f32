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
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import msgspec

from headrace.core.bounds import MAX_PAYLOAD
from headrace.core.hashed_types import Names

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
# Each level of nesting is read once more: not as often as someone likes. Smaller documents may have
# more levels, until they cost as much as the largest that apps let through unless they say so.
_MOST_LEVELS = 16
_ALWAYS_READ = _MOST_LEVELS * MAX_PAYLOAD
# As Python reads them: digits of all scripts, with underscores and blanks.
_NUMBER = re.compile(r"\s*[-+]?[\d_.]{1,5000}([eE][-+]?[\d_]{1,20})?\s*")
_FRACTION = re.compile(r"\s*[-+]?[\d_]{1,5000}/[\d_]{1,5000}\s*")
_COMPLEX = re.compile(r"[(\d.eE+-]{1,40}[jJ]\)?")
# A number or an id in fewer characters has a hash of its own.
_LONG = 19
# Plain, with dashes, and as pydantic also takes them: in braces, or as a URN.
_ID_LENGTHS = frozenset((32, 36, 38, 45))

# Of what is decoded without a type.
_NESTED = frozenset((dict, list, tuple))

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
    left, found = max(_MOST_LEVELS * len(data), _ALWAYS_READ), [data]
    while found:
        part = found.pop()
        left -= len(part)
        if left < 0:
            raise ValueError("it is nested too deeply for its size")
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


def check_items(plain: Any, items: Collection[Names] = (frozenset(),)) -> None:
    """Refuse a decoded plain value in which a list or a map has items or keys that would collide as
    those of a set, or once they are numbers, ids or records. `items` has the names of the fields of
    records that are hashed, for each kind of them."""
    for names in items:
        _Items(names).check(plain)


class _Items:
    """Looks for items that collide, given the fields of records that their hash is made of: others
    are ignored when they are decoded, and must not make a difference here."""

    def __init__(self, names: Names) -> None:
        self._names = sorted(names)
        # Of what is nested, so that it is read once and not at each of its levels.
        self._known: dict[int, int] = {}

    def check(self, plain: Any) -> None:
        found = [plain]
        while found:
            value = found.pop()
            if not isinstance(value, (dict, list, tuple)):
                continue
            if len(value) > MOST_ALIKE:
                self._check_alike(value)
            parts = value.values() if isinstance(value, dict) else value
            found += [part for part in parts if type(part) in _NESTED]

    def _check_alike(self, items: Iterable[Any]) -> None:
        alike = defaultdict(list)
        for item in items:
            # Without fields that are hashed, no record is.
            if self._names or type(item) is not dict:
                alike[self._hash_of(item)].append(item)
        for group in alike.values():
            if len(group) > MOST_ALIKE and len({self._written(it) for it in group}) > MOST_ALIKE:
                raise Collision

    def _hash_of(self, item: Any) -> int:
        """The hash of the value that an item decodes to. Those of text and bytes are the secret
        ones of this process."""
        if isinstance(item, str):
            return _hash_of_text(item)
        if not isinstance(item, (list, tuple, dict)):
            return hash(item)
        known = self._known.get(id(item))
        if known is None:
            parts = self._record(item) if isinstance(item, dict) else item
            known = self._known[id(item)] = hash(tuple(map(self._hash_of, parts)))
        return known

    def _record(self, item: dict[Any, Any]) -> list[Any]:
        return [item[name] for name in self._names if name in item]

    def _written(self, item: Any) -> str:
        """A text that differs for items that differ in what is hashed."""
        if isinstance(item, dict):
            return repr([(name, self._written(item[name])) for name in self._names if name in item])
        return repr(item)


def _hash_of_text(text: str) -> int:
    """The hash of the number or id that a text may be decoded to, or else that of the text."""
    try:
        if _COMPLEX.fullmatch(text):
            return hash(complex(text))
        if len(text) < _LONG:
            return hash(text)
        if _NUMBER.fullmatch(text):
            return hash(Decimal(text))
        if _FRACTION.fullmatch(text):
            return hash(Fraction(text))
        return hash(UUID(text)) if len(text) in _ID_LENGTHS else hash(text)
    except (ValueError, ArithmeticError):
        return hash(text)
