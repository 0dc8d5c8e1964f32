"""Searching for a text in what a job holds, and for an argument by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from headrace.admin.app import AdminApp, named
from headrace.admin.bodies import TooLargeToShow, arguments_of
from headrace.admin.redaction import CLEAR, Redaction
from headrace.client.attempts import AttemptInfo
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import shown_attempts
from headrace.core.job.ids import JobId
from headrace.core.queue_names import is_log

_RANDOM = re.compile(r"(0x)?[0-9a-f-]{32,}")
_BEGINNING = 8
# A page examines a thousand jobs: larger arguments are not searched.
_MOST_SEARCHED = 256 * 1024
_SIGNS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


@dataclass(frozen=True, slots=True)
class Search:
    """Finds a text in the id, the errors and, with `arguments`, the arguments of a job, ignoring
    case; an empty text is found in all. In a random id it must be at the beginning: otherwise a
    search for any number would find some."""

    text: str = ""
    arguments: bool = True
    redaction: Redaction = CLEAR
    """A search must not reveal what this hides."""
    app: AdminApp | None = None
    """Knows the names of arguments: `order=o-17` finds jobs with that argument."""

    @classmethod
    def of(
        cls,
        text: str | None,
        *,
        arguments: bool = True,
        redaction: Redaction = CLEAR,
        app: AdminApp | None = None,
    ) -> Search:
        return cls((text or "").casefold(), arguments and not redaction.active, redaction, app)

    def finds(self, job_id: JobId, envelope: Envelope | None, history: bytes) -> bool:
        if not self.text or self._names(ids.to_text(job_id).casefold()):
            return True
        # Once for both ways to search them: that takes longer than all else.
        given = arguments_of(envelope, _MOST_SEARCHED) if self.arguments else None
        return self._has_argument(envelope, given) or (
            any(self.text in text.casefold() for text in self._texts(envelope, given, history))
            and self._may_be_seen(envelope, given, history)
        )

    def _has_argument(self, envelope: Envelope | None, given: Any) -> bool:
        """Whether the text is the name and the value of an argument, or of a field of an event."""
        name, equals, value = self.text.partition("=")
        if not equals or not self.arguments or envelope is None:
            return False
        if self.app is not None:
            lacks = bool(envelope.overrides.feed)
            given = named(self.app, envelope.task, given, lacks_first_argument=lacks)
        if not isinstance(given, Mapping):
            return False
        return any(
            str(key).casefold() == name and _value(each).casefold() == value
            for key, each in given.items()
        )

    def _may_be_seen(self, envelope: Envelope | None, given: Any, history: bytes) -> bool:
        """Whether the text is also in what redaction leaves."""
        if not self.redaction.active:
            return True
        masks = self.redaction.masks(envelope)
        texts = (masks.text(text) for text in self._texts(envelope, given, history))
        return any(self.text in text.casefold() for text in texts)

    def _names(self, id: str) -> bool:
        if _RANDOM.fullmatch(id):
            return id == self.text or (len(self.text) >= _BEGINNING and id.startswith(self.text))
        return self.text in id

    def _texts(self, envelope: Envelope | None, given: Any, history: bytes) -> Iterable[str]:
        """The texts to search, cheap ones first."""
        for attempt in shown_attempts(history).attempts:
            yield AttemptInfo.of(attempt).error
        if self.arguments and envelope is not None and not isinstance(given, TooLargeToShow):
            # Without the names of arguments, which all jobs of a task have.
            unnamed = isinstance(given, dict) and not is_log(envelope.task)
            written = _written(list(given.values()) if unnamed else given)
            yield _ESCAPE.sub(_unescaped, written) if "\\" in written else written
            if "\\" in self.text:
                # As pages show it: it may have been copied from there.
                yield written


def _value(value: Any) -> str:
    """As one would type it: a text without quotes, others as JSON."""
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    """The value as JSON on one line; empty if it cannot be written so."""
    try:
        return json.dumps(value, ensure_ascii=False, skipkeys=True, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return list(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return _SIGNS.get(code, code) if len(code) == 1 else chr(int(code[1:], 16))
