"""Finding in texts what must not be seen in them.

A redact hook says what is shown of a job's arguments. Whatever they hold and it does not show is
hidden: errors, logs and names of the same job may quote it, so it is searched for in all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"
ALL_HIDDEN = "(hidden)"

# As many characters in a row that a text has in common with a hidden value are masked, for errors
# cut long values short, in the middle or at the end.
_RUN = 8
# Next to where a text was cut, fewer are a piece of the value.
_LEAST_PIECE = 4
# A value of one character is no secret, and is in every text.
_LEAST = 2
# Below this length, only whole words: a hidden 42 is no reason to mask 4200.
_PART_OF_WORD = 4
# Beyond these, searching would take too long: then no text is shown at all.
_MOST_CHARACTERS = 200_000
_MOST_VALUES = 20_000
_CUT = re.compile(r"\.\.\.|…")
_MANY = (list, tuple, set, frozenset)


class Masks:
    """What is hidden of one job. Without anything hidden, all stays as it is."""

    def __init__(
        self, hidden: Iterable[str] = (), *, everything: bool = False, salt: bytes = b""
    ) -> None:
        found = {_folded(form) for text in hidden for form in _forms(text)}
        values = [text for text in found if len(text) >= _LEAST]
        too_much = sum(map(len, values)) > _MOST_CHARACTERS or len(values) > _MOST_VALUES
        self._everything = everything or too_much
        self._salt = salt
        self.hides = self._everything or bool(values)
        """Whether anything is hidden."""
        self._runs: set[str] = set()
        self._heads: set[str] = set()
        self._tails: set[str] = set()
        self._short: re.Pattern[str] | None = None
        if values and not self._everything:
            self._learn(values)

    def _learn(self, values: list[str]) -> None:
        for text in values:
            for at in range(len(text) - _RUN + 1):
                run = text[at : at + _RUN]
                # Blanks and rulers are in every traceback.
                if any(map(str.isalnum, run)):
                    self._runs.add(run)
            for size in range(_LEAST_PIECE, min(_RUN, len(text))):
                self._heads.add(text[:size])
                self._tails.add(text[-size:])
        # All values: one of punctuation alone has no run.
        short = sorted((each for each in values if len(each) < _RUN), key=len, reverse=True)
        if short:
            self._short = re.compile("|".join(map(_pattern, short)))

    def text(self, text: str) -> str:
        """The text with stars in place of hidden values."""
        if not self.hides or not text:
            return text
        if self._everything:
            return ALL_HIDDEN
        folded = _folded(text)
        covered = bytearray(len(text))
        for start, end in self._found(folded):
            covered[start:end] = b"\1" * (end - start)
        return _starred(text, covered)

    def name(self, text: str) -> str:
        """A name that may be made of the arguments: if anything is hidden of them, another that
        stands for it, the same for the same name."""
        if not self.hides or not text:
            return text
        data = text.encode("utf-8", "surrogatepass")
        return f"#{blake2b(data, key=self._salt, digest_size=5).hexdigest()}"

    def mapping(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Headers, each without hidden values."""
        return {self.text(name): self.text(value) for name, value in texts.items()}

    def _found(self, folded: str) -> Iterator[tuple[int, int]]:
        if self._runs:
            for at in range(len(folded) - _RUN + 1):
                if folded[at : at + _RUN] in self._runs:
                    yield at, at + _RUN
        if self._short is not None:
            yield from (match.span() for match in self._short.finditer(folded))
        cuts = [match.span() for match in _CUT.finditer(folded)]
        # The text itself may have been cut at either end.
        for before, after in [*cuts, (len(folded), 0)]:
            for size in range(_LEAST_PIECE, _RUN):
                if before >= size and folded[before - size : before] in self._heads:
                    yield before - size, before
                if folded[after : after + size] in self._tails:
                    yield after, after + size


NOTHING_HIDDEN = Masks()


def hidden_in(given: Any, shown: Any) -> list[str]:
    """The texts and numbers in `given` that are not in `shown`."""
    visible = set(_texts(shown))
    return list({text for text in _texts(given) if text not in visible})


def _texts(value: Any) -> Iterator[str]:
    """All texts and numbers in a value; not by recursion, for it may be deep."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left.extend(each.values())
            # Names of fields are no secrets; keys of other kinds may be.
            left.extend(k for k in each if not (isinstance(k, str) and k.isidentifier()))
        elif isinstance(each, _MANY):
            left.extend(each)
        else:
            yield from _scalar(each)


def _scalar(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        yield repr(data)[2:-1]
        yield data.hex()
        yield data.decode("utf-8", "replace")
    elif isinstance(value, date):
        yield value.isoformat()
        yield str(value)
    elif value is not None and not isinstance(value, bool):
        try:
            yield str(value)
        except Exception:
            # A number with too many digits for Python to write; nothing else can quote it either.
            return


def _forms(text: str) -> set[str]:
    """How a text is written where it is quoted."""
    forms = {text, text.strip()}
    if len(text) > _MOST_CHARACTERS or (text.isalnum() and text.isascii()):
        return forms
    forms |= {repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    data = text.encode("utf-8", "surrogatepass")
    return forms | {quote(data), quote(data, safe=""), quote_plus(data)}


def _folded(text: str) -> str:
    """In small letters, each character in its place."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _pattern(text: str) -> str:
    escaped = re.escape(text)
    return rf"(?<!\w){escaped}(?!\w)" if len(text) < _PART_OF_WORD else escaped


def _starred(text: str, covered: bytearray) -> str:
    if not any(covered):
        return text
    parts, at = [], 0
    for match in re.finditer(rb"\x01+", bytes(covered)):
        parts += [text[at : match.start()], HIDDEN]
        at = match.end()
    return "".join([*parts, text[at:]])
