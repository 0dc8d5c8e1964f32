"""Texts by which users group jobs and events: keys, unique names, headers and the like."""

from __future__ import annotations

import unicodedata

from headrace.errors import ConfigError

MAX_LABEL_BYTES = 256


def check_label(what: str, text: object) -> str:
    """`text` if it can be a label: not empty, not long, nothing that does not print."""
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{what} must be a non-empty text, not {text!r}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{what} {text[:80]!r} is not valid text") from None
    if size > MAX_LABEL_BYTES:
        raise ConfigError(f"{what} takes {size} bytes, at most {MAX_LABEL_BYTES} are allowed")
    if any(unicodedata.category(c) == "Cc" for c in text):
        raise ConfigError(f"{what} {text!r} contains control characters")
    return text
