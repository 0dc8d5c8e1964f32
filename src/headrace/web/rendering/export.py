"""What a page lists, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Any

import msgspec

from headrace.admin import DeadInfo
from headrace.admin.bodies import allowed

_UNSEEN = ("envelope",)


def json_list(rows: Sequence[Any]) -> Iterator[bytes]:
    """The rows of a list as JSON, each on a line of its own, which is decoded when its turn comes;
    what JSON cannot hold is written as text. None is left out."""
    before = "["
    for row in rows:
        with allowed():
            text = _encoder.encode(_plain(row))
        yield f"{before}\n{text}".encode()
        before = ","
    yield b"\n]\n" if rows else b"[]\n"


def _plain(row: Any) -> Any:
    if isinstance(row, msgspec.Struct):
        return msgspec.structs.asdict(row)
    if not is_dataclass(row) or isinstance(row, type):
        return row
    shown = {each.name: getattr(row, each.name) for each in fields(row) if each.name not in _UNSEEN}
    return {**shown, "arguments": row.arguments} if isinstance(row, DeadInfo) else shown


def _written(value: Any) -> Any:
    if is_dataclass(value) or isinstance(value, msgspec.Struct):
        return _plain(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | tuple):
        return list(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return value.isoformat() if isinstance(value, date) else str(value)


_encoder = json.JSONEncoder(default=_written, skipkeys=True)
