"""What may travel as the headers of an event."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.bounds import MAX_NAME
from headrace.errors import ConfigError

TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
MAX_TRACEPARENT = 255
MAX_VALUE = 8192
_OWN_PREFIX = "headrace-"
_INSTEAD = {
    "content-type": "the topic's codec= sets it",
    "event-version": "the topic's version= sets it",
    "event-id": "use id=",
    "message-id": "use id=",
    "idempotency-key": "use id=: what is published again under an id is published once",
    "event-key": "use key=",
    "event-type": "use type=",
    "event-source": "use source=",
    "event-time": "the id says when the event was published",
    "occurred-at": "use occurred_at=",
    "correlation-id": "use correlation_id=",
}


def checked_headers(headers: object) -> dict[str, str]:
    """`headers` if they map names to short texts and none of the names is reserved."""
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers must map text to text, not {headers!r}")
    for name, value in headers.items():
        _check_name(name)
        _check_value(name, value)
    return dict(headers)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise ConfigError(f"the name of a header is 1 to {MAX_NAME} characters, not {name!r}")
    if not name.isascii() or not name.isprintable() or " " in name:
        raise ConfigError(f"header {name!r}: names are printable ASCII without spaces")
    plain = name.lower().replace("_", "-")
    if plain.startswith(_OWN_PREFIX):
        raise ConfigError(f"header {name!r}: names that begin with {_OWN_PREFIX!r} are reserved")
    if plain in _INSTEAD:
        raise ConfigError(f"header {name!r} is reserved: {_INSTEAD[plain]}")
    if plain in TRACE_HEADERS and name != plain:
        raise ConfigError(f"header {name!r}: the W3C trace headers are in lower case: {plain!r}")


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"header {name!r} must be a text, not {value!r}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"header {name!r}: {value[:80]!r} is not valid text") from None
    most = _most(name)
    if size > most:
        raise ConfigError(f"header {name!r} takes {size:,} bytes, at most {most:,} are allowed")


def trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a run that what it publishes should have too."""
    return {
        name: headers[name]
        for name in TRACE_HEADERS
        if name in headers and len(headers[name].encode()) <= _most(name)
    }


def _most(name: str) -> int:
    return MAX_TRACEPARENT if name == "traceparent" else MAX_VALUE
