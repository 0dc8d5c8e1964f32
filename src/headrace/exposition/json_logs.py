"""Log records as JSON, one object per line."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from typing import Any

_OWN = ("time", "level", "logger", "message", "exception", "stack")
# Attributes that every record has; the rest was given as `extra`.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_DEEPEST = 6
_LARGEST_INT = 2**63


class JsonFormatter(logging.Formatter):
    """One line per record: `time` (RFC 3339, UTC), `level`, `logger`, `message`, `exception` if
    there is one, and all `extra` fields; `fields` are on every line.

    Never fails: a value that JSON cannot hold is written as its `repr`. ASCII only, without line
    breaks.

    Args:
        fields: Written on every line, such as `service="shop"`.
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        import json

        try:
            given = {**self._fields, **_extra(record)}
            line = self._own(record)
            line.update((_renamed(name, given), it) for name, it in given.items())
            return json.dumps({name: _plain(it) for name, it in line.items()}, default=_repr)
        except Exception as error:
            return json.dumps({"message": f"not loggable: {type(error).__name__}"})

    def _own(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if exception := self._exception(record):
            line["exception"] = exception
        if record.stack_info:
            line["stack"] = record.stack_info
        return line

    def _exception(self, record: logging.LogRecord) -> str | None:
        # A record that came from another process has only the text.
        if not record.exc_info:
            return record.exc_text
        given: Any = record.exc_info
        if isinstance(given, BaseException):
            given = type(given), given, given.__traceback__
        kind, *rest = given if isinstance(given, tuple) else sys.exc_info()
        try:
            return self.formatException((kind, *rest)) if kind else record.exc_text
        except Exception:
            return record.exc_text or _name(kind)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    # A copy: other threads may hold the record too.
    return {_key(name): it for name, it in dict(vars(record)).items() if name not in _USUAL}


def _renamed(name: str, given: Mapping[str, Any]) -> str:
    """A field with one of our names gets a free one beside ours."""
    if name in _OWN:
        name += "_"
        while name in given:
            name += "_"
    return name


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except Exception:
        return _repr(seconds)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Arguments that do not fit the format: log both as they are.
        return f"{_repr(record.msg)} {_repr(record.args)}"


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can hold it."""
    try:
        return _converted(value, depth)
    except Exception:
        # Another thread is changing it, or its type lies.
        return _repr(value)


def _converted(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_INT:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {_key(name): _plain(it, depth + 1) for name, it in value.items()}
        if isinstance(value, (list, tuple, AbstractSet)):
            return [_plain(it, depth + 1) for it in value]
    return _repr(value)


def _key(name: Any) -> str:
    return name if isinstance(name, str) else _repr(name)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{_name(type(value))} without a repr>"


def _name(kind: Any) -> str:
    try:
        return str(kind.__name__)
    except Exception:
        return "something"
