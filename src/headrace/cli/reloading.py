"""Notices that source files have changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SOURCES = (".py",)
_PASSED_OVER = frozenset(("__pycache__", "node_modules", "site-packages", "venv"))
# More would take longer to look at than the pause between two looks.
_MOST = 20_000


class Sources:
    """The Python files below some folders, as they were when last looked at. Looked at by name,
    time and size: no watcher of the system is needed, so it works on any disk."""

    def __init__(self, *folders: Path) -> None:
        self._folders = sorted({folder.resolve() for folder in folders})
        self._known = dict(self._stamps())

    def changed(self) -> list[Path]:
        """Files that are new, gone or different since the last look, by name."""
        now = dict(self._stamps())
        pairs = now.items() ^ self._known.items()
        self._known = now
        return sorted({path for path, _ in pairs})

    def _stamps(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        found = 0
        for folder in self._folders:
            for root, folders, files in os.walk(folder):
                folders[:] = [name for name in folders if not _is_passed_over(name)]
                for name in files:
                    if not name.endswith(_SOURCES) or found >= _MOST:
                        continue
                    path = Path(root, name)
                    try:
                        stat = path.stat()
                    except OSError:
                        # Just being replaced: the next look finds it.
                        continue
                    found += 1
                    yield path, (stat.st_mtime_ns, stat.st_size)


def _is_passed_over(folder: str) -> bool:
    return folder.startswith(".") or folder in _PASSED_OVER
