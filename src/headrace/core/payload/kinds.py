"""What a type says of its values: their classes; and which part of a value cannot travel."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from headrace.core.codec import ENCODE_ERRORS

# Of a value that holds itself, the way to the culprit has no end.
_DEEPEST = 12
_WIDER: dict[Any, tuple[type, ...]] = {
    float: (float, int),
    bytes: (bytes, bytearray, memoryview),
}


def named(kind: Any) -> str:
    """A type as people write it."""
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__qualname__ if kind.__module__ == "builtins" else kind.__name__
    return str(kind).replace("typing.", "")


def without_none(kind: Any) -> Any:
    """The type without `| None` and without what `Annotated` adds, if that leaves one."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return without_none(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(kind) if each is not types.NoneType]
        return without_none(others[0]) if len(others) == 1 else kind
    return kind


def kinds_of(kind: Any) -> tuple[type, ...]:
    """Classes that cover all values of the type; empty if unknown."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        parts = [kinds_of(part) for part in typing.get_args(kind)]
        return tuple(each for part in parts for each in part) if all(parts) else ()
    if origin is typing.Annotated:
        return kinds_of(typing.get_args(kind)[0])
    if kind in _WIDER:
        return _WIDER[kind]
    found = types.NoneType if kind is None else origin or kind
    try:
        isinstance(None, found)
    except TypeError:
        # A TypedDict, a NewType, Any: nothing that a value is an instance of.
        return ()
    return (found,) if isinstance(found, type) else ()


def culprit(value: Any, encode: Callable[[Any], Any]) -> tuple[str, Exception] | None:
    """The innermost part of a value that cannot be encoded: the path to it, empty for the value
    itself, and the error. None if all of it can be."""
    error, way = _problem(value, encode), ""
    if error is None:
        return None
    for _ in range(_DEEPEST):
        guilty = next(_guilty(value, encode), None)
        if guilty is None:
            break
        step, value, error = guilty
        way += step
    return way.removeprefix("."), error


def _guilty(value: Any, encode: Callable[[Any], Any]) -> Iterator[tuple[str, Any, Exception]]:
    for step, part in _parts(value):
        error = _problem(part, encode)
        if error is not None:
            yield step, part, error


def _problem(value: Any, encode: Callable[[Any], Any]) -> Exception | None:
    try:
        encode(value)
    except ENCODE_ERRORS as error:
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with the step that leads to it."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    else:
        yield from ((f".{name}", getattr(value, name, None)) for name in _field_names(value))


def _field_names(value: Any) -> tuple[str, ...]:
    kind = type(value)
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "model_fields", None) or ()
    return tuple(names)
