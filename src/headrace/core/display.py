"""How values are shown to people: texts of jobs made safe, numbers with their noun."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

# Letters and marks to Unicode, and yet nothing to the eye.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")

_UTC_TEXT = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b")


def is_plain(text: str) -> bool:
    """Whether all characters are visible as they are: no control characters, no changes of the
    writing direction, no invisible ones, and no blank but the space."""
    return text.isprintable() and _BLANK.isdisjoint(text)


def harmless(text: str) -> str:
    """The text on one line, with every character escaped that is not plainly visible, so that a
    job's data cannot control a terminal."""
    if is_plain(text):
        return text
    return "".join(c if is_plain(c) else ascii(c)[1:-1] for c in text)


def cut(text: str, most: int) -> str:
    """The text, or as much of its beginning as fits."""
    return text if len(text) <= most else text[: most - 1] + "…"


def unread_text(newer_format: bool) -> str:
    """What stands for a part of a job that cannot be read, or only by a newer version."""
    return "(sent by a newer version)" if newer_format else "(cannot be read)"


def meant(name: str, known: Iterable[str]) -> str:
    """A question for the end of a sentence about an unknown name; empty if none is like it."""
    from difflib import get_close_matches

    alike = get_close_matches(name, known, n=1)
    return f": did you mean {alike[0]!r}?" if alike else ""


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number with what it counts: `1 job`, `1,200 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def utc_text(moment: datetime) -> str:
    """Date and time to the second, such as `2026-01-31 12:00:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def local_text(moment: datetime) -> str:
    """Date and time to the second in the local time zone, which it names."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def in_local_time(sentence: str) -> str:
    """The sentence with the times in it that `utc_text` made, as `local_text` makes them."""
    return _UTC_TEXT.sub(lambda found: _localized(found[0]), sentence)


def _localized(text: str) -> str:
    try:
        return local_text(datetime.strptime(f"{text} +0000", "%Y-%m-%d %H:%M:%S UTC %z"))
    except (ValueError, OverflowError):  # not one of ours: there is no such day
        return text


def length_text(seconds: float) -> str:
    """A length of time in its largest unit: `<1 ms`, `12 ms`, `1.2 s`, `34 s`; from a minute
    on with the next one."""
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s") if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    at, (length, unit) = next(each for each in enumerate(_UNITS) if whole >= each[1][0])
    count, rest = divmod(whole, length)
    below, small = _UNITS[at + 1]
    more = rest // below
    return f"{count} {unit} {more} {small}" if more and count < 10 else f"{count} {unit}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def period_text(seconds: float) -> str:
    """A length of time, not rounded: `1 h 30 min`, `2.5 s`."""
    parts, rest = [], round(seconds, 3)
    for length, unit in _UNITS[:-1]:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count:.0f} {unit}")
    if rest or not parts:
        parts.append(f"{rest:.3f}".rstrip("0").rstrip(".") + " s")
    return " ".join(parts)
