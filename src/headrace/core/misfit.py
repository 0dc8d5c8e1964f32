"""What is wrong with values that arrived, by the names of arguments and fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_SUCH = "there is no argument"
"""How the text begins about one that the function does not take."""

_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_COUNT = re.compile(r"Expected `array` of .*?length \d+, got (\d+)")
_PLACE = re.compile(r" - at (`key` in )?`\$(?:\.(\w+)|\[(\d+)\])?([^`]*)`$")

_TYPE = re.compile(r"`[^`]*`")
_FORMAT_WORD = re.compile(r"\b(array|object|null)\b")
_IN_PYTHON = {"array": "list", "object": "dict", "null": "None"}


class Misfit(Exception):
    """Arguments arrived that do not fit the function (any more)."""


class UnknownContent(Misfit):
    """Arguments arrived by a codec that the task does not have here."""


def misfit_of(
    error: Exception, names: Sequence[str], takes: str, *, inside: str | None = None
) -> Misfit:
    """The error of a decoder, with the names of arguments: `names` by position, `takes` is the
    whole signature. If it is about one argument only, that is `inside`."""
    text = str(error)
    place = _PLACE.search(text)
    what = text[: place.start()] if place else text
    if inside is not None:
        return Misfit(f"argument {inside!r}: {_said(what, _path(place, inside))}")
    if place and (argument := _argument(place, names)):
        return Misfit(f"argument {argument!r}: {_said(what, _path(place, argument, tail=True))}")
    return Misfit(_of_all(what, names, takes))


def field_problem(error: Exception) -> str:
    """The error of a decoder of one value, with the names of its fields."""
    text = str(error) or type(error).__name__
    place = _PLACE.search(text)
    return _said(text[: place.start()] if place else text, _path(place, ""))


def _argument(place: re.Match[str], names: Sequence[str]) -> str | None:
    if place[3] is None:
        return place[2]
    return names[int(place[3])] if int(place[3]) < len(names) else None


def _path(place: re.Match[str] | None, argument: str, *, tail: bool = False) -> str:
    """Where in the argument it is; empty if that is the argument itself."""
    if place is None:
        return ""
    first = "" if tail else (f".{place[2]}" if place[2] else f"[{place[3]}]" if place[3] else "")
    rest = first + place[4]
    where = f"{argument}{rest}".lstrip(".")
    if place[1] is not None:
        return f"a key of `{where}`" if where else "a key"
    return f"`{where}`" if rest else ""


def _said(what: str, path: str) -> str:
    if found := _MISSING.fullmatch(what):
        said = f"its field {found[1]!r} is missing"
    elif found := _UNKNOWN.fullmatch(what):
        said = f"it has a field {found[1]!r} that is not known here"
    else:
        said = _in_python(what)
    return f"{said}, at {path}" if path else said


def _of_all(what: str, names: Sequence[str], takes: str) -> str:
    if found := _MISSING.fullmatch(what):
        return f"argument {found[1]!r} is missing: it takes {takes}"
    if found := _UNKNOWN.fullmatch(what):
        return f"{NO_SUCH} {found[1]!r}: it takes {takes}"
    if found := _COUNT.search(what):
        count = int(found[1])
        if count < len(names):
            return f"argument {names[count]!r} is missing: it takes {takes}"
        return f"there are {count} arguments: it takes {takes}"
    return f"its arguments cannot be read: {_in_python(what)}; it takes {takes}"


def _in_python(what: str) -> str:
    """A sentence about types, with Python's names of them in place of the format's."""
    if not what.startswith("Expected"):
        return what
    said = _TYPE.sub(lambda kind: _FORMAT_WORD.sub(lambda w: _IN_PYTHON[w[0]], kind[0]), what)
    return said[:1].lower() + said[1:]
