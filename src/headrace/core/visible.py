"""Texts that jobs bring, made safe to be shown."""

from __future__ import annotations


def harmless(text: str) -> str:
    """The text with everything escaped that is not plainly visible, so that what a job brings
    cannot steer a terminal; it stays on one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
