"""URLs as people may see them."""

from __future__ import annotations

import re


def without_password(url: str) -> str:
    """The URL as it may be shown and logged."""
    before, at, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    shown = f"{scheme}{separator}***@{after}" if at else url
    return re.sub(r"(password=)[^&]*", r"\1***", shown)
