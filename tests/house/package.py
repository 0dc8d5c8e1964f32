"""The package as the tests look at it: each module is read and parsed once."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

import headrace

ROOT = Path(headrace.__file__).parent

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Module:
    """A module by its name below `headrace`, its file, and what is in it."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def packages_imported(self) -> set[str]:
        """The top-level packages that it imports, anywhere in it."""
        names = [node.module or "" for node in self.nodes(ast.ImportFrom)]
        names += [alias.name for node in self.nodes(ast.Import) for alias in node.names]
        return {name.split(".")[0] for name in names}

    def nodes(self, kind: type[Node]) -> list[Node]:
        """The nodes of this kind, wherever they stand."""
        return [node for node in self._nodes if isinstance(node, kind)]

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package."""
    # The trees are kept: to look for garbage among them takes longer than to make them.
    gc.disable()
    try:
        return tuple(
            Module(name_of(path), path, ast.parse(path.read_text()))
            for path in sorted(ROOT.rglob("*.py"))
        )
    finally:
        gc.enable()


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
