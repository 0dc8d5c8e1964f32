"""Texts that jobs have in common: keys, unique names, and what they are made of."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b

from headrace.errors import ConfigError

MAX_LABEL_BYTES = 256
# Names are stored with each job: what is longer than this is stored as its digest.
_MAX_NAME_BYTES = 128


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


def unique_name(task: str, text: str) -> str:
    """The name under which jobs of a task with this text are one."""
    name = f"{task}:{text}"
    return name if len(name.encode()) <= _MAX_NAME_BYTES else digest(task, text.encode())


def digest(task: str, data: bytes) -> str:
    """A short name for what a task is called with."""
    return blake2b(task.encode() + b"\0" + data, digest_size=16).hexdigest()
