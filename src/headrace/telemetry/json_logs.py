"""Log records as JSON, one object per line."""

from __future__ import annotations

import json
import logging
import math
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
        told = {**self._fields, **_extra(record)}
        line = self._own(record)
        # A field of one of our names is kept beside ours.
        line.update((f"{name}_" if name in _OWN else name, it) for name, it in told.items())
        return json.dumps({str(name): _plain(it) for name, it in line.items()})

    def _own(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            try:
                line["exception"] = self.formatException(record.exc_info)
            except Exception:
                line["exception"] = record.exc_info[0].__name__
        if record.stack_info:
            line["stack"] = record.stack_info
        return line


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: it for name, it in vars(record).items() if name not in _USUAL}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Arguments that do not fit the text are no reason to lose both.
        return f"{_shown(record.msg)} {_shown(record.args)}"


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can say it."""
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
        return f"<{type(value).__name__} that cannot be shown>"
