"""Whether what one step returns can be what the next one takes: checked when a flow is sent.

Only what cannot fit is refused. Types that are not listed here may fit.
"""

from __future__ import annotations

import collections.abc
import types
from dataclasses import is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, is_typeddict

_NUMBER, _TEXT, _BYTES, _NULL, _ARRAY, _MAP = "number", "text", "bytes", "null", "array", "map"
_KINDS: dict[Any, str] = {
    int: _NUMBER, float: _NUMBER, bool: _NUMBER, str: _TEXT, bytes: _BYTES, type(None): _NULL,
    None: _NULL, list: _ARRAY, tuple: _ARRAY, set: _ARRAY, frozenset: _ARRAY, dict: _MAP,
    collections.abc.Sequence: _ARRAY, collections.abc.Iterable: _ARRAY,
    collections.abc.Collection: _ARRAY, collections.abc.Mapping: _MAP,
}  # fmt: skip
_UNIONS = (Union, types.UnionType)


def can_fit(given: Any, taken: Any) -> bool:
    """Whether a value of the type `given` may fit into the type `taken`."""
    return any(
        _may_be(one, other) for one in _alternatives(given) for other in _alternatives(taken)
    )


def type_name(kind: Any) -> str:
    """A type as it is written."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def _may_be(given: Any, taken: Any) -> bool:
    one, other = _kind(given), _kind(taken)
    if one is None or other is None:
        return True
    if one != other:
        return False
    items, wanted = _item(given), _item(taken)
    return one != _ARRAY or items is None or wanted is None or can_fit(items, wanted)


def _kind(kind: Any) -> str | None:
    """How a type travels; None if that is not known."""
    origin = get_origin(kind) or kind
    try:
        known = _KINDS.get(origin)
    except TypeError:
        return None
    if known is None and (
        is_typeddict(origin) or (isinstance(origin, type) and is_dataclass(origin))
    ):
        return _MAP
    return known


def _item(kind: Any) -> Any:
    """The type of the items of an array; None if it is not known, or they differ."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return None
    return arguments[0] if arguments else None
