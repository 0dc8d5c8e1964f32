"""A Lua script: put together from its file, the prelude and, if it moves jobs, `lua/moving`.

A script's header names its KEYS as attributes of `QueueKeys` (`*` for all of them) or `KvKeys`,
which the script finds in its table `key`, and its ARGV with their types. `tools/lua_stubs.py`
writes `script_stubs.py` from the headers: one function for each script, with the same names. One
about many queues at once says that it has these keys "of each queue"; it goes from one to the next
with `each_queue`. One that moves jobs is also given the rules of the history, RULES. A script that
changes something answers by `applied`, and has one more argument,
REQUEST: see `connection/requests.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from headrace.core.bounds import (
    DEAD_KEPT_COUNT,
    DEAD_KEPT_DAYS,
    EVENTS_TTL,
    FLOW_COUNTED_MS,
    RESULT_TTL,
)
from headrace.core.job.constraints import BATCH_GATE, QUEUE_LIMIT
from headrace.core.job.outcome import task_gate
from headrace.store.redis.connection.requests import REMEMBERED
from headrace.store.redis.keys import RETURNED, WORKERS, QueueKeys

MOVING = (
    "index",
    "streams",
    "limits",
    "batches",
    "lanes",
    "shelves",
    "ends",
    "flows",
    "stops",
    "finish",
)
"""The files of `lua/moving`, in the order in which they build on each other."""

_CONSTANTS = "\n".join(
    f"local {name} = {value!r}"
    for name, value in {
        "WORKERS": WORKERS,
        "RETURNED": RETURNED,
        "TASK_GATE": task_gate(""),
        "QUEUE_LIMIT": QUEUE_LIMIT,
        "BATCH_GATE": BATCH_GATE,
        "KEPT_MS": int(RESULT_TTL * 1000),
        "DEAD_MOST": DEAD_KEPT_COUNT,
        "DEAD_MS": DEAD_KEPT_DAYS * 86_400_000,
        "FLOW_MS": FLOW_COUNTED_MS,
    }.items()
)

_OF_EACH = ", of each queue"
# `groups` has the consumer group of each queue. There may be keys beyond theirs: `cluster_link.py`.
_EACH_QUEUE = """
local key
local function each_queue(groups, visit)
  for at, group in ipairs(cmsgpack.unpack(groups)) do
    local before = (at - 1) * {count}
    key = {{{named}}}
    visit(group)
  end
end
"""
_EVENTS_TTL = f"local EVENTS_SECONDS = {EVENTS_TTL}"
_REQUEST = f"""local REQUEST, REMEMBERED = table.remove(ARGV), {REMEMBERED}"""
# Of scripts that move jobs, before REQUEST: see `HistoryRules.encoded`.
_RULES = "local RULES = table.remove(ARGV)"
_APPLIED_BEFORE = """
local answer = answer_before()
if answer then
  return answer
end
"""
_encode = msgspec.msgpack.Encoder().encode


class Script:
    """A Lua file, and what its header says. It is read and put together when it is first used: a
    process needs few of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The attributes of `QueueKeys` or `KvKeys` that are its KEYS."""
        names, _ = _keys_named(_source(self.name))
        return QueueKeys.ALL if names == "*" else tuple(names.split())

    @cached_property
    def takes_all(self) -> bool:
        return self.keys is QueueKeys.ALL

    @cached_property
    def changes(self) -> bool:
        return "applied" in _calls(_source(self.name))

    @cached_property
    def sessions_at(self) -> int:
        return self.keys.index("sessions") if self.changes else -1

    @cached_property
    def body(self) -> str:
        # The first line declares to the server what the script may do, so the rest comes after it.
        flags, _, rest = _source(self.name).partition("\n")
        called = set(_calls(rest))
        if self.takes_all:
            moving = [_source(f"moving/{part}") for part in MOVING]
            rest = "\n".join([_CONSTANTS, *moving, rest])
            called = called.union(*map(_calls, moving))
        if self.changes:
            rest = _APPLIED_BEFORE + rest
            called |= _calls(_APPLIED_BEFORE)
        head = [flags, _REQUEST] if self.changes else [flags]
        if "record" in called:
            head.append(_EVENTS_TTL)
        if self.takes_all:
            head.append(_RULES)
        return "\n".join([*head, self._named_keys(), *_used_by(called), rest])

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.body.encode(), usedforsecurity=False).hexdigest()

    def names(self, queues: Sequence[QueueKeys]) -> list[str]:
        """Its keys, of each of these queues."""
        return [getattr(keys, name) for keys in queues for name in self.keys]

    def _named_keys(self) -> str:
        _, is_of_each = _keys_named(_source(self.name))
        place = "before + {}" if is_of_each else "{}"
        places = [f"KEYS[{place.format(at)}]" for at in range(1, len(self.keys) + 1)]
        named = ", ".join(f"{key} = {it}" for key, it in zip(self.keys, places, strict=True))
        if is_of_each:
            return _EACH_QUEUE.format(count=len(self.keys), named=named)
        return f"local key = {{{named}}}"


def groups_of(queues: Sequence[QueueKeys]) -> bytes:
    """The consumer groups of queues, as the argument of a script about many of them."""
    return _encode([keys.group for keys in queues])


@cache
def _source(name: str) -> str:
    return files("headrace.store.redis").joinpath(f"lua/{name}.lua").read_text()


@cache
def _calls(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(\w+)\(", text))


@cache
def _shared() -> list[tuple[str, str, frozenset[str]]]:
    """The functions of the prelude, the last one first: name, text, and what each calls."""
    parts = re.split(r"\n\n+(?=(?:--.*\n)*local function )", _source("prelude"))
    named = [(re.search(r"local function (\w+)", part), part) for part in parts]
    return [(found[1], part, _calls(part)) for found, part in reversed(named) if found]


def _used_by(called: set[str]) -> list[str]:
    """The functions of the prelude that a script needs, which calls these, directly or indirectly.
    The server creates each of them again for every run of a script, so the others are left out."""
    used: list[str] = []
    for name, text, calls in _shared():
        if name in called:
            used.insert(0, text)
            called |= calls
    return used


def _keys_named(source: str) -> tuple[str, bool]:
    """The names of a script's keys, and whether it has them of each of many queues."""
    named = _header(source, "KEYS")
    return named.removesuffix(_OF_EACH), named.endswith(_OF_EACH)


def _header(source: str, name: str) -> str:
    found = re.search(rf"^-- {name}: (.+)$", source, re.MULTILINE)
    return found[1] if found else ""
