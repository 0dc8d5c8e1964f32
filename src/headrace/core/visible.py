"""Texts that jobs bring, made safe to be shown."""

from __future__ import annotations

# Letters and marks to Unicode, and yet nothing to the eye.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def is_plain(text: str) -> bool:
    """Whether each character of a text is seen for what it is: none that controls, that turns the
    direction of writing, or that looks like nothing, and no blank but the space."""
    return text.isprintable() and _BLANK.isdisjoint(text)


def harmless(text: str) -> str:
    """The text with everything escaped that is not plainly visible, so that what a job brings
    cannot steer a terminal; it stays on one line."""
    if is_plain(text):
        return text
    return "".join(c if is_plain(c) else ascii(c)[1:-1] for c in text)
