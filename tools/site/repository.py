"""The repository's files as pages, and links between them.

`docs/tasks.md` is the page `tasks.md`; README.md is the front page. A file that a page links to,
such as a test or an example, gets a page that shows it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Pages that are not in docs/, and the one that makes room for the front page.
PAGES = {
    "README.md": "index.md",
    "docs/index.md": "contents.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "reporting.md",
}
FILES = "files"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".lua": "lua"}


def pages() -> dict[str, str]:
    """The pages that MkDocs does not find in docs/, by their place in the site."""
    made = {uri: (ROOT / path).read_text() for path, uri in PAGES.items()}
    return made | {uri_of(path): _shown(path) for path in _files_linked()}


def linked(markdown: str, uri: str) -> str:
    """A page's text, with links that lead to pages of the site."""
    path = _paths().get(uri)
    if path is None:
        return markdown
    lines = []
    for line, is_code in lines_of(markdown):
        lines.append(line if is_code else LINK.sub(lambda m: _relinked(m, path, uri), line))
    return "\n".join(lines) + "\n"


def lines_of(markdown: str) -> Iterator[tuple[str, bool]]:
    """The lines of a text, and whether each is in a fenced block."""
    fenced = False
    for line in markdown.splitlines():
        is_fence = line.lstrip().startswith("```")
        yield line, fenced or is_fence
        fenced ^= is_fence


def uri_of(path: str) -> str:
    """The place in the site of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{FILES}/{path}.md"


def _relinked(match: re.Match[str], path: str, uri: str) -> str:
    link = match[2]
    if re.match(r"[a-z]+:|#|/", link):
        return match[0]
    target, hash, anchor = link.partition("#")
    there = uri_of(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
    from_here = posixpath.relpath(there, posixpath.dirname(uri) or ".")
    return f"{match[1]}{from_here}{hash}{anchor}{match[3]}"


@cache
def _paths() -> dict[str, str]:
    """Where in the repository a page of the site is from."""
    docs = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    return {uri_of(path): path for path in docs | PAGES.keys()}


@cache
def _files_linked() -> list[str]:
    """The files outside of docs/ that pages link to and that are not pages themselves."""
    found = set()
    for path in _paths().values():
        for line, is_code in lines_of((ROOT / path).read_text()):
            for match in () if is_code else LINK.finditer(line):
                link = match[2].partition("#")[0]
                if link and not re.match(r"[a-z]+:|/", link):
                    found.add(posixpath.normpath(posixpath.join(posixpath.dirname(path), link)))
    return sorted(
        path
        for path in found - PAGES.keys()
        if not path.startswith("docs/") and (ROOT / path).is_file()
    )


def _shown(path: str) -> str:
    text = (ROOT / path).read_text().rstrip()
    language = LANGUAGES.get(Path(path).suffix, "text")
    hidden = "" if path.startswith("examples/") else "search:\n  exclude: true\n"
    return (
        f"---\ntitle: {path}\nhide: [toc]\n{hidden}---\n\n# `{path}`\n\n"
        f"````{language}\n{text}\n````\n"
    )
