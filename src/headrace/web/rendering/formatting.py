"""Numbers, times and arbitrary texts, formatted for pages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from headrace.admin.jobs.gate_text import gate_text
from headrace.core.display import is_plain, length_text, unread_text, utc_text
from headrace.core.display import plural as plural

# Line ends and tabs; and joiners, which emoji and some scripts need.
_KEPT = frozenset("\n\t\u200c\u200d")
NOTHING = "\N{EN DASH}"
_UTC = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)")
_NAMED = re.compile(r"(\b(?:job|event|flow of) )([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)")
_LINK = Markup('<a class="id" href="{}">{}</a>')
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def visible(value: Any) -> Any:
    """Escape characters that cannot be seen or that change the text direction. Each expression of
    a template goes through it; markup is left alone."""
    if not isinstance(value, str) or isinstance(value, Markup) or is_plain(value):
        return value
    return "".join(map(_shown, value.replace("\r\n", "\n")))


def _shown(sign: str) -> str:
    # Spaces of any width hide nothing.
    if is_plain(sign) or sign in _KEPT or unicodedata.category(sign) == "Zs":
        return sign
    return f"\\x{ord(sign):02x}" if ord(sign) < 256 else ascii(sign)[1:-1]


def verbatim(value: object) -> Markup:
    """The text unchanged, for form fields, whose values are sent back to us."""
    # HTML and event streams take a bare carriage return for a line end.
    return Markup(str(escape(str(value))).replace("\r", "&#13;"))


def clip(text: object, most: int = 200) -> str:
    """The text; if it is long, its beginning and its length."""
    whole = str(text)
    if len(whole) <= most:
        return whole
    return f"{whole[:most]}… ({len(whole):,} characters)"


def number(value: float | None) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 1 else f"{value:.2g}"


def seconds(value: float | None) -> str:
    """A length of time in the largest fitting unit."""
    if value is None:
        return NOTHING
    return length_text(value)


def ago(value: datetime | None) -> str:
    """Such as "5 s ago" or "in 5 s"."""
    if value is None:
        return NOTHING
    past = (datetime.now(UTC) - value).total_seconds()
    if abs(past) < 1:
        return "now"
    length = seconds(float(int(abs(past))))
    return f"{length} ago" if past > 0 else f"in {length}"


def moment(value: datetime | None) -> str:
    """Date and time to the second, with its zone."""
    return NOTHING if value is None else value.strftime("%Y-%m-%d %H:%M:%S %Z").rstrip()


def with_times(text: str) -> Markup:
    """A sentence whose times a script shows in the local zone, with UTC as the tooltip."""
    parts = _UTC.split(text)
    shown = [escape(visible(part)) if at % 2 == 0 else _time(part) for at, part in enumerate(parts)]
    return Markup("").join(shown)


def with_links(text: str, address: Callable[[str], str]) -> Markup:
    """As `with_times`, with a link to each job and event that is named by an id of ours."""
    # Each id is the last of three parts.
    parts = enumerate(_NAMED.split(text))
    shown = [with_times(p) if at % 3 != 2 else _LINK.format(address(p), p) for at, p in parts]
    return Markup("").join(shown)


def _time(text: str) -> Markup:
    iso = text.removesuffix(" UTC").replace(" ", "T")
    return Markup('<time datetime="{}Z" title="{}" data-local="full">{}</time>').format(
        iso, text, text
    )


def size(value: int) -> str:
    """A number of bytes."""
    if value < 1024:
        return f"{value} B"
    return f"{value / 1024:,.1f} KiB" if value < 1024**2 else f"{value / 1024**2:,.1f} MiB"


FILTERS = {
    "ago": ago,
    "clip": clip,
    "gate": gate_text,
    "moment": moment,
    "number": number,
    "plural": plural,
    "seconds": seconds,
    "size": size,
    "unread": unread_text,
    "utc": utc_text,
    "verbatim": verbatim,
    "with_times": with_times,
}
