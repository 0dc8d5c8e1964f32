"""Finding jobs by a text that someone remembers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from headrace.admin.bodies import arguments_of
from headrace.admin.redaction import CLEAR, Redaction
from headrace.client.job import AttemptInfo
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import decode_history
from headrace.core.job.ids import JobId

_RANDOM = re.compile(r"(0x)?[0-9a-f-]{32,}")
_BEGINNING = 8
# A page looks at a thousand jobs: what is in larger ones is not looked for.
_MOST_SEARCHED = 256 * 1024
_SIGNS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


@dataclass(frozen=True, slots=True)
class Search:
    """A text in the id, the errors or, if `arguments` says so, the arguments of a job, in small
    letters or capitals; the empty one is in all. Of an id that is random, the whole of it or its
    beginning: others would be found by any number that someone looks for."""

    text: str = ""
    arguments: bool = True
    redaction: Redaction = CLEAR
    """What may be seen: a search must not reveal anything else."""

    @classmethod
    def of(
        cls, text: str | None, *, arguments: bool = True, redaction: Redaction = CLEAR
    ) -> Search:
        return cls((text or "").casefold(), arguments and not redaction.active, redaction)

    def finds(self, job_id: JobId, envelope: Envelope | None, history: bytes) -> bool:
        return (
            not self.text
            or self._names(ids.to_text(job_id).casefold())
            or (
                any(self.text in text.casefold() for text in self._texts(envelope, history))
                and self._may_be_seen(envelope, history)
            )
        )

    def _may_be_seen(self, envelope: Envelope | None, history: bytes) -> bool:
        """Whether it is also in what is shown."""
        if not self.redaction.active:
            return True
        masks = self.redaction.masks(envelope)
        texts = (masks.text(text) for text in self._texts(envelope, history))
        return any(self.text in text.casefold() for text in texts)

    def _names(self, id: str) -> bool:
        if _RANDOM.fullmatch(id):
            return id == self.text or (len(self.text) >= _BEGINNING and id.startswith(self.text))
        return self.text in id

    def _texts(self, envelope: Envelope | None, history: bytes) -> Iterable[str]:
        """Where to look, what is cheap to make first."""
        for attempt in decode_history(history).attempts:
            yield AttemptInfo.of(attempt).error
        if self.arguments and envelope is not None:
            written = _written(arguments_of(envelope, _MOST_SEARCHED))
            yield _ESCAPE.sub(_unescaped, written) if "\\" in written else written
            if "\\" in self.text:
                # As it stands on a page, from where it may have been copied.
                yield written


def _written(value: Any) -> str:
    """The value as JSON on one line, in which all its texts, names and numbers are; empty if it
    has no such form."""
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
