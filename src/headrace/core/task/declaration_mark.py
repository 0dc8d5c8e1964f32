"""A short mark of how a task takes its arguments: workers see by it whether another one's version
of the program declares the task otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import msgspec

from headrace.core.codec import encode_alike
from headrace.core.payload.kinds import named

MARK = 4
"""How many bytes a mark has."""

# Words of a schema: below these stand names of the user's choosing, and those say nothing of which
# values fit.
_NAMED = ("properties", "$defs")
_ASIDE = ("default", "description", "examples")


def mark_of(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], *reading: object
) -> bytes:
    """The mark of these parameters, equal in every process for those that take the same arguments:
    by their names, order and types, fields of types included, and by which have a default; not by
    what that is. `reading` are options that say how arguments are read."""
    takes = [
        [each.name, each.kind.name, each.default is each.empty, _form(hints.get(each.name, Any))]
        for each in parameters
    ]
    return crc32(encode_alike([takes, *reading])).to_bytes(MARK, "big")


def _form(kind: Any) -> Any:
    """What a type lets through, as plain data. Never its `repr`, which may hold an address."""
    name = named(kind) if isinstance(kind, type) else ""
    try:
        schemas, components = msgspec.json.schema_components([kind], schema_hook=_of_model)
        return [name, _bare([*schemas]), {at: _bare(each) for at, each in components.items()}]
    except Exception:
        # A worker must not fail to start over a type that nobody can describe.
        return [name]


def _of_model(kind: type) -> dict[str, Any]:
    """What msgspec leaves to others: pydantic models, and types of one's own codec."""
    schema: dict[str, Any] = (
        kind.model_json_schema() if hasattr(kind, "model_json_schema") else {"title": named(kind)}
    )
    return schema


def _bare(schema: Any) -> Any:
    """The schema without what is for people, and without defaults."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        word: {name: _bare(each) for name, each in part.items()} if word in _NAMED else _bare(part)
        for word, part in schema.items()
        if word not in _ASIDE
    }
