"""Markdown of the repository as the site's renderer reads it."""

from __future__ import annotations

import re

import repository
from mkdocs.exceptions import PluginError

# A badge, such as those of README.md: a page that showed it would load it.
PICTURE_FROM_ELSEWHERE = re.compile(r"!\[([^]]*)\]\(https://[^)\s]+\)")


def site(markdown: str) -> str:
    """With lists that are as deep as they look, state diagrams as tables, and the words of pictures
    that are on another host in their place."""
    lines = []
    for line, is_code in repository.lines_of(_without_diagrams(markdown)):
        lines.append(line if is_code else _shown(line))
    return "\n".join(lines) + "\n"


def _shown(line: str) -> str:
    deep = re.sub(r"^ {2,3}(?=- |\d+\. )", "    ", line)
    return PICTURE_FROM_ELSEWHERE.sub(r"\1", deep)


def _without_diagrams(markdown: str) -> str:
    return re.sub(r"^```mermaid\n(.*?)^```$", _as_table, markdown, flags=re.MULTILINE | re.DOTALL)


def _as_table(diagram: re.Match[str]) -> str:
    """The arrows of a state diagram: drawing them takes a script of three megabytes."""
    head, *arrows = (line.strip() for line in diagram[1].strip().splitlines())
    if head != "stateDiagram-v2":
        raise PluginError(f"the site shows state diagrams only, not {head!r}: draw it in words")
    rows = ["| from | to | by |", "|---|---|---|"]
    for arrow in arrows:
        match = re.fullmatch(r"(\S+) --> (\S+): (.+)", arrow)
        if match is None:
            raise PluginError(f"this is no arrow of a state diagram: {arrow!r}")
        start, end, by = match.groups()
        rows.append(f"| {start.replace('[*]', '(new)')} | {end.replace('[*]', '(gone)')} | {by} |")
    return "\n".join(rows)
