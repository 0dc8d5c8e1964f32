"""Log records as JSON, one object per line."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from typing import Any

_OWN = ("time", "level", "logger", "message", "exception", "stack")
# What every record has; all else was given as `extra`.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_DEEPEST = 6
_LARGEST_INT = 2**63


class JsonFormatter(logging.Formatter):
    """A line for each record: `time` (RFC 3339, UTC), `level`, `logger`, `message`, `exception` if
    there is one, and all fields given as `extra`; `fields` are on every line. Never fails: what
    JSON has no word for is as Python writes it. ASCII only, without line breaks."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        try:
            told = {**self._fields, **_extra(record)}
            line = self._own(record)
            line.update((_beside(name, told), it) for name, it in told.items())
            return json.dumps({name: _plain(it) for name, it in line.items()}, default=_shown)
        except Exception as error:
            return json.dumps({"message": f"a record that cannot be told: {type(error).__name__}"})

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
    # Of a copy: other threads may have the record too.
    return {_key(name): it for name, it in dict(vars(record)).items() if name not in _USUAL}


def _beside(name: str, told: Mapping[str, Any]) -> str:
    """A field of one of our names is kept beside ours, by a name that no other has."""
    if name in _OWN:
        name += "_"
        while name in told:
            name += "_"
    return name


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except Exception:
        return _shown(seconds)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Arguments that do not fit the text are no reason to lose both.
        return f"{_shown(record.msg)} {_shown(record.args)}"


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can say it."""
    try:
        return _converted(value, depth)
    except Exception:
        # Another thread is changing it, or it is not what it pretends to be.
        return _shown(value)


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
    return _shown(value)


def _key(name: Any) -> str:
    return name if isinstance(name, str) else _shown(name)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{_name(type(value))} that cannot be shown>"


def _name(kind: Any) -> str:
    try:
        return str(kind.__name__)
    except Exception:
        return "something"
