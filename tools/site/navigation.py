"""The navigation, read from the tables of docs/index.md: each page is listed once, there.

A heading such as `## Guides` is a part of the site, `### Topics` a part of that. The first link in
a row of a table below it is a page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROW = re.compile(r"^\| \[(.+?)\]\(([^)#\s]+\.md)\) \|(.*)")
# What docs/index.md says itself, below these headings.
OWN = {"Words", "How the examples are tested"}


def read(index: Path, pages: Mapping[str, str], added: Mapping[str, list[Any]]) -> list[Any]:
    """MkDocs' `nav`; `pages` are those outside of docs/, `added` what goes first in a part."""
    parts: dict[str, list[Any]] = {}
    here: list[Any] = []
    seen: set[str] = set()
    for line in index.read_text().splitlines():
        if heading := re.match(r"^(##|###) (.+)$", line):
            level, title = heading.groups()
            if level == "##":
                part = here = parts.setdefault(title, [])
            else:
                here = []
                part.append({title: here})
        elif row := ROW.match(line):
            if row[2] in seen:
                raise PluginError(f"docs/index.md lists {row[2]} twice: once is enough")
            seen.add(row[2])
            here.append(_entry(*row.groups(), pages))
    found = {title: entries for title, entries in parts.items() if title not in OWN}
    for title, entries in added.items():
        found[title] = [*entries, *found.get(title, [])]
    inside = found.setdefault("Inside", [])
    inside.append({"Decisions": found.pop("Decisions", [])})
    return [{title: each} for title, each in found.items()]


def _entry(title: str, link: str, rest: str, pages: Mapping[str, str]) -> dict[str, str]:
    path = posixpath.normpath(posixpath.join("docs", link))
    if link.startswith("decisions/"):
        title = f"{title} {rest.strip(' |')}".replace("`", "")
    return {title: pages.get(path, path.removeprefix("docs/"))}
