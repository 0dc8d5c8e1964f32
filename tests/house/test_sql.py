"""SQL that every supported Python runs without a warning."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBERED = re.compile(r"(?<!\[)\?[0-9]")


def texts(file: Path) -> list[str]:
    source = file.read_text()
    # To parse a file takes a thousand times longer than to see that it has no such place.
    if not NUMBERED.search(source):
        return []
    tree = ast.parse(source)
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [text for text in found if isinstance(text, str)]


def test_values_in_sql_have_names_or_places_and_no_numbers() -> None:
    """Python 3.12.0 to 3.12.3 take `?1` for a name, and warn of a sequence that goes with it."""
    numbered = {
        str(file.relative_to(ROOT))
        for folder in ("src", "tests")
        for file in (ROOT / folder).rglob("*.py")
        if file != Path(__file__) and any(map(NUMBERED.search, texts(file)))
    }
    assert numbered == set()
