"""Values and texts of jobs as text for a page: bounded in length, with invisible characters
escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from headrace.core.display import is_plain
from headrace.web.rendering.formatting import visible

IN_A_PAGE = 10_000
IN_A_LIST = 200

_INDENT = "  "
# Deeper lines are indented no further: nesting must not fill a page with spaces.
_DEEPEST = 20
_ON_ONE_LINE = 72
_MANY = (list, tuple, set, frozenset)


class ValueText(NamedTuple):
    """Text for a page; `cut` if it is only the beginning. `/raw` has the whole."""

    text: str
    cut: bool = False


class _Visible(dict[int, str]):
    """For `str.translate`: escapes characters that cannot be seen."""

    def __missing__(self, code: int) -> str:
        # Not cached: there are a million of them, and a job may contain them all.
        char = chr(code)
        return char if is_plain(char) else escaped(char)


def escaped(char: str) -> str:
    """A character as JSON escapes it."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# Line ends between the lines of JSON; those in texts are escaped.
_VISIBLE = _Visible({ord("\n"): "\n"})


def tail(text: str, most: int = IN_A_PAGE) -> str:
    """The text; if it is long, its end, which says more in a traceback."""
    return text if len(text) <= most else f"{len(text):,} characters …\n{text[-most:]}"


def as_json(value: Any) -> str:
    """The value as JSON, with invisible characters escaped; raises what `json.dumps` does."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    return text if text.isascii() and text.isprintable() else text.translate(_VISIBLE)


def format_value(value: Any, most: int | None = IN_A_PAGE) -> ValueText:
    """A value as indented, JSON-like text, cut after `most` characters."""
    parts: list[str] = []
    room = most
    for text, size in _pieces(value, most):
        if room is not None and len(text) > room:
            # For a part that would not fit even alone, its size says more.
            rest = size if most is not None and len(text) > most else "and more"
            return ValueText(f"{''.join(parts)}{text[:room]}… {rest}", cut=True)
        parts.append(text)
        room = None if room is None else room - len(text)
    return ValueText("".join(parts))


def format_line(value: Any) -> str:
    """The beginning of a value on one line, for lists."""
    return " ".join(format_value(value, IN_A_LIST).text.split())


def arguments_line(arguments: Any) -> str:
    """The beginning of the arguments of a job on one line; empty if there are none."""
    return "" if arguments in (None, {}, []) else format_line(arguments)


Piece = tuple[str, str]
"""A piece of text, and the size of its value; empty if not worth saying."""
Part = tuple[str, Any]
"""The prefix of an item on its line, and the item."""
Open = list[tuple[Iterator[Part], str]]
"""Open brackets, the innermost last: the items still to come, and the closing bracket."""


def _pieces(value: Any, most: int | None) -> Iterator[Piece]:
    """The pieces of a value's text, in order; without recursion, since values may be deep."""
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
    """The text of a value without parts; for others the opening bracket, pushed to `brackets`."""
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
    """The text of a value without parts, or with few short ones; None if it needs more lines."""
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
    """The `repr`, or a stand-in if that raises."""
    try:
        return json.dumps(value) if type(value) is float else repr(value)
    except Exception:
        if isinstance(value, int):
            # Python prints no more than a few thousand digits.
            return hex(value)
        return f"({type(value).__name__})"
