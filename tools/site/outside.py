"""Refuses a site whose pages load anything from another host."""

from __future__ import annotations

import re
from pathlib import Path

# What a browser fetches by itself. A link that a reader may follow is not among it.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import\s+|url\()["']?((?:https?:)?//[^"'\s)]+)"""
)


def loaded(site: Path) -> list[str]:
    """What the pages and styles of a site load from elsewhere, each with the file that does."""
    return [
        f"{path.relative_to(site)}: {next(filter(None, match.groups()))}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css", ".svg")
        for match in LOADED.finditer(path.read_text())
    ]
