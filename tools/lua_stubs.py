"""Writes the typed Python stubs of the Lua scripts from the scripts' headers.

    python tools/lua_stubs.py           # writes store/redis/script_stubs.py
    python tools/lua_stubs.py --check   # fails if it would become another

A header's ARGV line names each argument and its type, `limit:int`. An argument without a type is
filled in here: the queue's name or consumer group, or a constant of `keys.py`. What any number of
jobs follows with comes last, `*jobs, for each: job_id envelope`. The line that begins with
`Returns` has the type of the reply before its colon; a tuple is a reply to be unpacked. A test
writes the stubs again and compares.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.store.redis import keys
from headrace.store.redis.keys import KvKeys

FOLDER = Path(keys.__file__).parent
TARGET = FOLDER / "script_stubs.py"
LUA = FOLDER / "lua"
MOVING = LUA / "moving"
WIDTH = 100
_GLUE = "\0"
OF_EACH = ", of each queue"
FILLED_IN = {"queue": "keys.queue", "group": "keys.group", "groups": "groups_of(keys)"}

HEAD = '''"""The Lua scripts as functions. `tools/lua_stubs.py` writes them from the headers."""

# fmt: off
from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import {constants}, KvKeys, QueueKeys
from headrace.store.redis.script import Script, groups_of
from headrace.store.values import IdempotencyKey
'''


class Argument(NamedTuple):
    """One of ARGV; the type is empty if the stub fills it in."""

    name: str
    type: str

    @property
    def sent(self) -> str:
        if self.type:
            return f"int({self.name})" if self.type == "bool" else self.name
        return FILLED_IN.get(self.name, self.name.upper())


class Header(NamedTuple):
    """What the first lines of a script say."""

    file: str
    name: str
    keys: list[str]
    of_each: bool
    fixed: list[Argument]
    rest: Argument | None
    returns: str
    changes: bool

    @property
    def owner(self) -> str:
        """The class whose attributes its keys are."""
        return "KvKeys" if self.keys[0] in KvKeys.__slots__ else "QueueKeys"


def read(path: Path) -> Header:
    """The header of a script; raises `ValueError` that names what is missing."""
    source = path.read_text()
    named = _line(path, source, r"KEYS: (.+)")
    arguments = _line(path, source, r"ARGV: (.+)")
    fixed, star, several = arguments.partition("*")
    words = [] if arguments == "none" else fixed.removesuffix(", then ").split()
    return Header(
        file=path.relative_to(LUA).with_suffix("").as_posix(),
        name=path.stem,
        keys=named.removesuffix(OF_EACH).split(),
        of_each=named.endswith(OF_EACH),
        fixed=[_argument(word) for word in words],
        rest=_argument(several.split(",")[0]) if star else None,
        returns=_line(path, source, r"Returns ([^:]+?): "),
        changes="applied(" in source,
    )


def _argument(word: str) -> Argument:
    name, _, type_ = word.partition(":")
    return Argument(name, type_)


def _line(path: Path, source: str, pattern: str) -> str:
    found = re.search(rf"^-- {pattern}", source, re.MULTILINE)
    if found is None:
        raise ValueError(f"{path.name}: no line of its header is like {pattern!r}")
    return found[1]


def stub(header: Header) -> str:
    """The function that calls a script."""
    parameters = ["link: Link", f"keys: {_keys_type(header)}"]
    named = [f"{each.name}: {each.type}" for each in header.fixed if each.type]
    if header.rest:
        named.append(f"{header.rest.name}: Sequence[{header.rest.type or 'Argument'}]")
    if header.changes:
        named.append("idempotency: IdempotencyKey | None = None")
    parameters += ["*", *named] if named else []
    signature = f"def {header.name}(\n{_filled(parameters)}\n) -> Awaitable[{header.returns}]:"
    return f"{signature}\n    return link.run(\n{_filled(_given(header), '        ')}\n    )\n"


def _keys_type(header: Header) -> str:
    return f"Sequence[{header.owner}]" if header.of_each else header.owner


def _given(header: Header) -> list[str]:
    """What is handed on, as expressions."""
    sent = [each.sent for each in header.fixed]
    if header.rest:
        sent.append(f"*{header.rest.name}")
    if header.keys == ["*"]:
        sent.append("keys.history_rules.encoded(keys.queue)")
    script = f"_{header.name}"
    if header.of_each:
        names = f"{script}.names(keys)"
    elif header.keys == ["*"]:
        names = "keys.all"
    else:
        names = f"[{', '.join(f'keys.{key}' for key in header.keys)}]"
    repeated = ["idempotency"] if header.changes else []
    return [script, names, f"[{', '.join(sent)}]", *repeated]


def _filled(parts: Sequence[str], indent: str = "    ") -> str:
    """The parts with commas between them, in lines that break at commas."""
    joined = ", ".join(re.sub(r"(?<!,) ", _GLUE, part) for part in parts)
    filled = textwrap.fill(
        f"{joined},",
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_GLUE, " ")


def stubs() -> str:
    """The whole module."""
    paths = sorted(LUA.rglob("*.lua"), key=lambda path: path.stem)
    headers = [read(path) for path in paths if path.stem != "prelude" and path.parent != MOVING]
    constants = {
        each.name.upper()
        for header in headers
        for each in header.fixed
        if not each.type and each.name not in FILLED_IN
    }
    made = "\n".join(f'_{header.name} = Script("{header.file}")' for header in headers)
    functions = "\n\n".join(map(stub, headers))
    return f"{HEAD.format(constants=', '.join(sorted(constants)))}\n{made}\n\n\n{functions}"


def main() -> None:
    made = stubs()
    if "--check" not in sys.argv:
        TARGET.write_text(made)
    elif TARGET.read_text() != made:
        sys.exit(f"{TARGET} is not what the headers say: run python tools/lua_stubs.py")


if __name__ == "__main__":
    main()
