"""The Lua files, as the tests look at them."""

from __future__ import annotations

import inspect
from pathlib import Path

from headrace.store.redis import script

FOLDER = Path(inspect.getfile(script)).parent
# Not scripts by themselves: the one is put at the head of each, the others, in a folder of that
# name, of those that move jobs.
PRELUDE, MOVING = "prelude", "moving"
LUA = sorted((FOLDER / "lua").rglob("*.lua"))
NAMES = [path.stem for path in LUA if path.parent.name != MOVING and path.stem != PRELUDE]
ALL, OF_EACH = "*", ", of each queue"


def source(name: str) -> str:
    if name == MOVING:
        return "\n".join(map(source, script.MOVING))
    (path,) = [path for path in LUA if path.stem == name]
    return path.read_text()


def code(name: str) -> str:
    """A file without its comments."""
    return "\n".join(line.split("--", 1)[0] for line in source(name).splitlines())


def header(name: str) -> list[str]:
    """The comment lines at the top, without the line that names the interpreter."""
    lines = source(name).splitlines()
    assert lines[0].startswith("#!lua")
    end = next(i for i, line in enumerate(lines[1:], 1) if not line.startswith("--"))
    return [line.removeprefix("--").strip() for line in lines[1:end]]


def moves_jobs(name: str) -> bool:
    return header(name)[1] == f"KEYS: {ALL}"
