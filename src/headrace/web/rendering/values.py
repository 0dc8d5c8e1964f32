"""Values and texts that jobs bring, as text that a page can show: whatever they hold, it is seen
for what it is, and no more of it than a page has room for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from headrace.core.visible import is_plain
from headrace.web.rendering.formatting import visible

IN_A_PAGE = 10_000
IN_A_LIST = 200

_INDENT = "  "
# Deeper lines begin no further to the right: nesting must not make a page of blanks.
_DEEPEST = 20
_ON_ONE_LINE = 72
_MANY = (list, tuple, set, frozenset)


class Shown(NamedTuple):
    """Text for a page; `cut` if there is more of it, which `/raw` has."""

    text: str
    cut: bool = False


class _Visible(dict[int, str]):
    """For `str.translate`: what cannot be seen as an escape that can."""

    def __missing__(self, code: int) -> str:
        # Not kept: there are a million of them, and a job may bring them all.
        char = chr(code)
        return char if is_plain(char) else escaped(char)


def escaped(char: str) -> str:
    """A character as JSON escapes it."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# Line ends between the lines of JSON; those in texts are escaped.
_VISIBLE = _Visible({ord("\n"): "\n"})


def ending(text: str, most: int = IN_A_PAGE) -> str:
    """The end of a long text, which tells more of a traceback than its beginning."""
    return text if len(text) <= most else f"{len(text):,} characters …\n{text[-most:]}"


def as_json(value: Any) -> str:
    """JSON that means the same, with everything escaped that cannot be seen; raises what
    `json.dumps` does for what has no such form."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    return text if text.isascii() and text.isprintable() else text.translate(_VISIBLE)


def written(value: Any, most: int | None = IN_A_PAGE) -> Shown:
    """A value as indented text in the manner of JSON, cut after `most` characters."""
    parts: list[str] = []
    room = most
    for text, size in _pieces(value, most):
        if room is not None and len(text) > room:
            # Of one that would not fit by itself, how long it is says more.
            rest = size if most is not None and len(text) > most else "and more"
            return Shown(f"{''.join(parts)}{text[:room]}… {rest}", cut=True)
        parts.append(text)
        room = None if room is None else room - len(text)
    return Shown("".join(parts))


def in_a_line(value: Any) -> str:
    """The beginning of a value, on one line, for lists."""
    return " ".join(written(value, IN_A_LIST).text.split())


Piece = tuple[str, str]
"""A bit of text, and the size of the value that it is of, if that is worth saying."""
Part = tuple[str, Any]
"""What stands before an item on its line, and the item."""
Open = list[tuple[Iterator[Part], str]]
"""Brackets that are open, the innermost last: what is still to come in them, and how they close."""


def _pieces(value: Any, most: int | None) -> Iterator[Piece]:
    """What a value is written as, one after the other; not by recursion, for it may be deep."""
    brackets: Open = []
    yield _begun(value, most, brackets)
    first = True
    while brackets:
        parts, end = brackets[-1]
        part = next(parts, None)
        if part is None:
            brackets.pop()
            yield f"\n{_margin(brackets)}{end}", ""
            first = False
            continue
        depth = len(brackets)
        yield f"{'' if first else ','}\n{_margin(brackets)}{part[0]}", ""
        yield _begun(part[1], most, brackets)
        first = len(brackets) > depth


def _begun(value: Any, most: int | None, brackets: Open) -> Piece:
    """A value that is written at once; of another its bracket, which is then open."""
    line = _one_line(value, most)
    if line is not None:
        return line
    if isinstance(value, Mapping):
        names = ((f"{_scalar(name, most)[0]}: ", item) for name, item in value.items())
        brackets.append((names, "}"))
        return "{", ""
    brackets.append(((("", item) for item in value), "]"))
    return "[", ""


def _margin(brackets: Open) -> str:
    return _INDENT * min(len(brackets), _DEEPEST)


def _one_line(value: Any, most: int | None) -> Piece | None:
    """A value without parts, or with few and short ones; None if it takes several lines."""
    if isinstance(value, Mapping):
        return None if value else ("{}", "")
    if not isinstance(value, _MANY):
        return _scalar(value, most)
    if len(value) > _ON_ONE_LINE or any(isinstance(each, (Mapping, *_MANY)) for each in value):
        return None
    line = f"[{', '.join(_scalar(each, _ON_ONE_LINE + 1)[0] for each in value)}]"
    return (line, "") if len(line) <= _ON_ONE_LINE else None


def _scalar(value: Any, most: int | None) -> Piece:
    if isinstance(value, str):
        size = f"{len(value):,} characters"
        head = value if most is None else value[: most + 1]
        return as_json(head), size
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return repr(data if most is None else data[: most + 1]), f"{len(data):,} bytes"
    if value is None or isinstance(value, bool):
        return json.dumps(value), ""
    if isinstance(value, (datetime, date)):
        return as_json(value.isoformat()), ""
    text = _represented(value)
    return str(visible(text if most is None else text[: most + 1])), f"{len(text):,} characters"


def _represented(value: Any) -> str:
    """As Python writes it; it need not be able to."""
    try:
        return json.dumps(value) if type(value) is float else repr(value)
    except Exception:
        if isinstance(value, int):
            # Too long for digits, of which Python makes no more than a few thousand.
            return hex(value)
        return f"({type(value).__name__})"
