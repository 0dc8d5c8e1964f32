"""URLs as people may see them."""

from __future__ import annotations


def without_password(url: str) -> str:
    """The URL as it may be shown and logged."""
    before, at, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return f"{scheme}{separator}***@{after}" if at else url
