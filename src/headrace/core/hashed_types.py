"""Which types hold sets or maps whose keys can be made to collide: see `collisions.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

# Types whose hashes nobody can predict, or that have few values with one hash.
KEYED = (
    msgspec.inspect.StrType,
    msgspec.inspect.BytesType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.EnumType,
    msgspec.inspect.LiteralType,
    msgspec.inspect.DateType,
    msgspec.inspect.TimeType,
)
# In MessagePack a number has 64 bits, so that at most a few have the same hash; in JSON any length.
KEYED_OR_SHORT = (*KEYED, msgspec.inspect.IntType)
_SETS = (msgspec.inspect.SetType, msgspec.inspect.FrozenSetType)
_RECORDS = (msgspec.inspect.StructType, msgspec.inspect.DataclassType)

# As pydantic calls them. Whole numbers are not among them: it reads them from texts of any length.
_KEYED_IN_MODELS = frozenset(
    ("str", "bytes", "float", "bool", "none", "enum", "literal", "date", "time")
)
_ITEMS_IN_MODELS = {"set": "items_schema", "frozenset": "items_schema", "dict": "keys_schema"}
_ANY = {"type": "any"}
# What is in them is no type, and may be anything.
_NO_TYPES = frozenset(("cls", "config", "default", "expected", "metadata", "serialization"))

Names = frozenset[str]


class Hashing(NamedTuple):
    """What a type hashes when it is decoded."""

    items: frozenset[Names]
    """The items and keys whose hashes can be foretold: of each kind the names of the fields that
    its hash is made of, none if it is no record."""
    is_open: bool
    """Whether it leaves its content open, so that MessagePack can bring a map with such keys."""


def hashing_of(info: Any, keyed: tuple[type, ...] = KEYED_OR_SHORT) -> Hashing:
    """What a type hashes, from what `msgspec.inspect.type_info` says of it."""
    items, is_open = set[Names](), False
    for part in parts_of(info):
        if isinstance(part, (msgspec.inspect.AnyType, msgspec.inspect.CustomType)):
            is_open = True
        if isinstance(part, msgspec.inspect.CustomType) and hasattr(part.cls, "model_validate"):
            items |= _items_of_model(part.cls)
        item = _item_of(part)
        if item is not None and not _is_keyed(item, keyed, in_set=isinstance(part, _SETS)):
            items.add(frozenset().union(*map(_hashed_names, parts_of(item))))
    return Hashing(frozenset(items), is_open)


def parts_of(info: Any) -> Iterator[Any]:
    """A type and all types in it, each once: a tree's node holds nodes."""
    return _parts(info, {})


def _parts(info: Any, seen: dict[int, Any]) -> Iterator[Any]:
    if not isinstance(info, msgspec.inspect.Type) or id(info) in seen:
        return
    seen[id(info)] = info
    yield info
    for name in info.__struct_fields__:
        parts = getattr(info, name)
        for part in parts if isinstance(parts, tuple) else (parts,):
            yield from _parts(part.type if isinstance(part, msgspec.inspect.Field) else part, seen)


def _item_of(part: Any) -> Any:
    """The type of what a set or a map hashes; None for other types."""
    if isinstance(part, msgspec.inspect.DictType):
        return part.key_type
    return part.item_type if isinstance(part, _SETS) else None


def _is_keyed(item: Any, keyed: tuple[type, ...], *, in_set: bool) -> bool:
    if isinstance(item, msgspec.inspect.UnionType):
        return all(isinstance(each, keyed) for each in item.types)
    # Of keys of maps that are left open, `check_keys` sees all.
    is_seen = isinstance(item, msgspec.inspect.AnyType) and not in_set
    return is_seen or isinstance(item, keyed)


def _hashed_names(part: Any) -> Names:
    """The fields that the hash of a record is made of, as they are called on their way."""
    if isinstance(part, msgspec.inspect.CustomType):
        return frozenset().union(*map(_names_in, _schemas(_schema_of(part.cls))))
    if not isinstance(part, _RECORDS):
        return frozenset()
    left_out = set[str]()
    if isinstance(part, msgspec.inspect.DataclassType):
        fields = dataclasses.fields(part.cls)
        left_out = {it.name for it in fields if not (it.compare if it.hash is None else it.hash)}
    return frozenset(it.encode_name for it in part.fields if it.name not in left_out)


def _items_of_model(model: type) -> set[Names]:
    """What a pydantic model hashes."""
    nodes = list(_schemas(_schema_of(model)))
    shared = {node["ref"]: node for node in nodes if isinstance(node.get("ref"), str)}
    items = set[Names]()
    for node in nodes:
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _ITEMS_IN_MODELS:
            continue
        item = node.get(_ITEMS_IN_MODELS[kind], _ANY)
        # Of keys of maps that are left open, `check_keys` sees all.
        is_seen = kind == "dict" and item.get("type") == "any"
        if not is_seen and item.get("type") not in _KEYED_IN_MODELS:
            items.add(frozenset().union(*map(_names_in, _schemas(item, shared))))
    return items


def _schema_of(model: type) -> Any:
    """What pydantic has made of a model's annotations: nested maps and lists. It is public, and the
    only place where all is resolved."""
    return getattr(model, "__pydantic_core_schema__", {})


def _schemas(schema: Any, shared: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
    """All maps in a schema, each once; with `shared`, also those that it refers to."""
    left, seen = [schema], set[int]()
    while left:
        node = left.pop()
        if isinstance(node, (list, tuple)):
            left += node
        elif isinstance(node, Mapping) and id(node) not in seen:
            seen.add(id(node))
            yield node
            left += [part for name, part in node.items() if name not in _NO_TYPES]
            if shared is not None and (found := shared.get(node.get("schema_ref", ""))) is not None:
                left.append(found)


def _names_in(node: Mapping[str, Any]) -> Names:
    """The names of the fields of a model, a dataclass or a typed dict, with their aliases."""
    fields = node.get("fields")
    if isinstance(fields, Mapping):
        named = [(name, it.get("validation_alias")) for name, it in fields.items()]
    elif isinstance(fields, list):
        named = [(it.get("name"), it.get("validation_alias")) for it in fields]
    else:
        return frozenset()
    found: list[Any] = []
    for name, alias in named:
        # An alias may be a text, a path, or a list of paths: its first parts are the names.
        paths = alias if isinstance(alias, list) else [alias]
        found += [name, *(it[0] if isinstance(it, list) and it else it for it in paths)]
    return frozenset(name for name in found if isinstance(name, str))
