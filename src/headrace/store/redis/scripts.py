"""The Lua scripts, each with the Python signature of its arguments.

A script's header names its KEYS as attributes of `QueueKeys` (`*` for all of them), which is how
they are filled in and what the script finds in its table `key`; and its ARGV as the parameters of
the function here of the same name. A test compares the two. A script about many queues at once says
that it has these keys "of each queue"; it goes from one to the next with `each_queue`. One that
changes something answers by `applied`, which makes it a script that has one more argument, REQUEST:
see `requests.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from headrace.core.ids import JobKey
from headrace.core.limits import DEAD_KEPT_COUNT, DEAD_KEPT_DAYS, RESULT_TTL
from headrace.core.outcome import task_gate
from headrace.store.redis.keys import RETURNED, WORKERS, KvKeys, QueueKeys
from headrace.store.redis.link import Argument, Link
from headrace.store.redis.requests import REMEMBERED
from headrace.store.values import IdempotencyKey

MOVING = ("index", "streams", "limits", "lanes", "ends", "flows", "stops", "finish")
"""The files of `lua/moving`, in the order in which they build on each other."""

_CONSTANTS = "\n".join(
    f"local {name} = {value!r}"
    for name, value in {
        "WORKERS": WORKERS,
        "RETURNED": RETURNED,
        "TASK_GATE": task_gate(""),
        "KEPT_MS": int(RESULT_TTL * 1000),
        "DEAD_MOST": DEAD_KEPT_COUNT,
        "DEAD_MS": DEAD_KEPT_DAYS * 86_400_000,
    }.items()
)

_OF_EACH = ", of each queue"
# `groups` has the consumer group of each queue. The keys may be more than theirs: see `routed.py`.
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
_REQUEST = f"""local REQUEST, REMEMBERED = table.remove(ARGV), {REMEMBERED}"""
_APPLIED_BEFORE = """
local answer = answer_before()
if answer then
  return answer
end
"""
_encode = msgspec.msgpack.Encoder().encode


class Script:
    """A Lua file, and what its header says."""

    def __init__(self, name: str) -> None:
        source = _source(name)
        names, self._is_of_each = _keys_named(source)
        self.takes_all = names == "*"
        self.keys = QueueKeys.ALL if self.takes_all else tuple(names.split())
        self.changes = "applied" in _calls(source)
        self.sessions_at = self.keys.index("sessions") if self.changes else -1
        # The first line says to the server what the script may do, so the rest comes after it.
        flags, _, rest = source.partition("\n")
        if self.takes_all:
            moving = [_source(f"moving/{part}") for part in MOVING]
            rest = "\n".join([_CONSTANTS, *moving, rest])
        if self.changes:
            rest = _APPLIED_BEFORE + rest
        head = [flags, _REQUEST] if self.changes else [flags]
        self.body = "\n".join([*head, self._named_keys(), *_used_by(rest), rest])
        self.sha = hashlib.sha1(self.body.encode(), usedforsecurity=False).hexdigest()

    async def __call__(
        self,
        link: Link,
        keys: QueueKeys | KvKeys,
        arguments: Sequence[Argument],
        idempotency: IdempotencyKey | None = None,
    ) -> Any:
        if self.takes_all and isinstance(keys, QueueKeys):
            return await link.run(self, keys.all, arguments, idempotency)
        names = [getattr(keys, name) for name in self.keys]
        return await link.run(self, names, arguments, idempotency)

    async def of_each(
        self, link: Link, queues: Sequence[QueueKeys], arguments: Sequence[Argument]
    ) -> Any:
        """Run it about all of these queues, whose consumer groups are its first argument."""
        names = [getattr(keys, name) for keys in queues for name in self.keys]
        groups = _encode([keys.group for keys in queues])
        return await link.run(self, names, [groups, *arguments])

    def _named_keys(self) -> str:
        place = "before + {}" if self._is_of_each else "{}"
        places = [f"KEYS[{place.format(at)}]" for at in range(1, len(self.keys) + 1)]
        named = ", ".join(f"{key} = {it}" for key, it in zip(self.keys, places, strict=True))
        if self._is_of_each:
            return _EACH_QUEUE.format(count=len(self.keys), named=named)
        return f"local key = {{{named}}}"


@cache
def _source(name: str) -> str:
    return files("headrace.store.redis").joinpath(f"lua/{name}.lua").read_text()


def _calls(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", text))


@cache
def _shared() -> list[tuple[str, str, set[str]]]:
    """The functions of the prelude, the last one first: name, text, and what each calls."""
    parts = re.split(r"\n\n+(?=(?:--.*\n)*local function )", _source("prelude"))
    named = [(re.search(r"local function (\w+)", part), part) for part in parts]
    return [(found[1], part, _calls(part)) for found, part in reversed(named) if found]


def _used_by(script: str) -> list[str]:
    """The functions of the prelude that a script needs, itself or for another of them. The server
    makes each anew whenever a script is run, so those that it does not need stay out."""
    used: list[str] = []
    called = _calls(script)
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


_append = Script("append")
_enter = Script("enter")
_fetch = Script("fetch")
_begin = Script("begin")
_settle = Script("settle")
_renew = Script("renew")
_reclaim = Script("reclaim")
_promote = Script("promote")
_prepare = Script("prepare")
_leave = Script("leave")
_get = Script("get")
_browse = Script("browse")
_survey = Script("survey")
_replay = Script("replay")
_purge = Script("purge")
_cancel = Script("cancel")
_halt = Script("halt")
_remove = Script("remove")
_follow = Script("follow")
_arrive = Script("arrive")
_flow_messages = Script("flow_messages")
_ack_flow_messages = Script("ack_flow_messages")
_report = Script("report")
_once_set = Script("once_set")
_once_all = Script("once_all")
_arrived = Script("arrived")
_kv_set = Script("kv_set")
_kv_all = Script("kv_all")
_record = Script("record")
_records = Script("records")
_stats = Script("stats")


async def append(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    check: bool,
    facts: bytes,
    counts: bytes,
    jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> list[int]:
    arguments = [events, int(check), facts, counts, *jobs]
    known: list[int] = await _append(link, keys, arguments, idempotency)
    return known


async def enter(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    check: bool,
    facts: bytes,
    counts: bytes,
    jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> list[Any]:
    arguments = [events, keys.queue, int(check), facts, counts, *jobs]
    known: list[Any] = await _enter(link, keys, arguments, idempotency)
    return known


async def fetch(link: Link, keys: QueueKeys, *, consumer: str, limit: int) -> list[Any]:
    entries: list[Any] = await _fetch(link, keys, [keys.group, consumer, limit])
    return entries


async def begin(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    jobs: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> list[bytes]:
    refused: list[bytes] = await _begin(link, keys, [events, keys.queue, *jobs], idempotency)
    return refused


async def settle(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    consumer: str,
    epoch: int,
    checked: bool,
    finished: bytes,
    facts_count: int,
    facts: bytes,
    counts: bytes,
    done: int,
    kept: int,
    constrained: bool,
    moved: int,
    from_log: int,
    blocks: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> list[bytes]:
    head: list[Argument] = [
        events, keys.queue, consumer, epoch, int(checked), finished, facts_count, facts, counts,
        done, kept, int(constrained), moved, from_log,
    ]  # fmt: skip
    reply: list[bytes] = await _settle(link, keys, head + list(blocks), idempotency)
    return reply


async def renew(
    link: Link, keys: QueueKeys, *, consumer: str, deliveries: Sequence[Argument]
) -> list[bytes]:
    lost: list[bytes] = await _renew(link, keys, [keys.group, consumer, *deliveries])
    return lost


async def reclaim(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    consumer: str,
    limit: int,
    last_chance: bool,
    lease: int,
    interval: int,
    crash_limit: int,
    dead_ms: int,
    going_on: bool,
) -> tuple[list[Any], list[int], list[bytes], int, int]:
    entries, counts, levels, paused, more = await _reclaim(
        link,
        keys,
        [
            events, keys.queue, consumer, limit, int(last_chance), lease, interval, crash_limit,
            dead_ms, int(going_on),
        ],
    )  # fmt: skip
    return entries, counts, levels, paused, more


async def promote(
    link: Link, keys: QueueKeys, *, events: int, consumer: str, limit: int, ticket: int
) -> tuple[int, int]:
    moved, wait = await _promote(link, keys, [events, keys.queue, consumer, limit, ticket])
    return moved, wait


async def prepare(
    link: Link, keys: QueueKeys, *, member: str
) -> tuple[int, list[bytes], int, int, list[bytes]]:
    epoch, levels, paused, waiting, *odd = await _prepare(link, keys, [keys.group, member])
    return epoch, levels, paused, waiting, odd


async def leave(link: Link, keys: QueueKeys, *, consumer: str) -> int:
    back: int = await _leave(link, keys, [keys.group, RETURNED, consumer])
    return back


async def get(
    link: Link, keys: Sequence[QueueKeys], *, bodies: bool, job_keys: Sequence[JobKey]
) -> list[list[Any]]:
    snapshots: list[list[Any]] = await _get.of_each(link, keys, [RETURNED, int(bodies), *job_keys])
    return snapshots


async def browse(
    link: Link, keys: QueueKeys, *, state: str, cursor: str, limit: int
) -> list[bytes]:
    page: list[bytes] = await _browse(link, keys, [keys.group, RETURNED, state, cursor, limit])
    return page


async def survey(link: Link, keys: Sequence[QueueKeys]) -> list[list[Any]]:
    states: list[list[Any]] = await _survey.of_each(link, keys, [RETURNED])
    return states


async def replay(
    link: Link, keys: QueueKeys, *, events: int, jobs: Sequence[Argument]
) -> list[int]:
    replayed: list[int] = await _replay(link, keys, [events, keys.queue, *jobs])
    return replayed


async def purge(
    link: Link, keys: QueueKeys, *, events: int, job_keys: Sequence[JobKey]
) -> list[int]:
    purged: list[int] = await _purge(link, keys, [events, keys.queue, *job_keys])
    return purged


async def cancel(
    link: Link, keys: QueueKeys, *, events: int, running: bool, job_keys: Sequence[JobKey]
) -> list[bytes]:
    answers: list[bytes] = await _cancel(link, keys, [events, keys.queue, int(running), *job_keys])
    return answers


async def halt(link: Link, keys: QueueKeys, *, events: int, task: str, gate: str, on: bool) -> int:
    changed: int = await _halt(link, keys, [events, keys.queue, task, gate, int(on)])
    return changed


async def remove(link: Link, keys: QueueKeys, *, events: int, force: bool) -> int:
    held: int = await _remove(link, keys, [events, keys.queue, int(force)])
    return held


async def follow(link: Link, keys: QueueKeys, *, parent: JobKey, children: bytes) -> list[bytes]:
    ending: list[bytes] = await _follow(link, keys, [parent, children])
    return ending


async def arrive(link: Link, keys: QueueKeys, *, events: int, arrivals: Sequence[Argument]) -> int:
    arrived: int = await _arrive(link, keys, [events, keys.queue, *arrivals])
    return arrived


async def flow_messages(
    link: Link, keys: QueueKeys, *, consumer: str, limit: int, ticket: int
) -> list[Any]:
    messages: list[Any] = await _flow_messages(link, keys, [consumer, limit, ticket])
    return messages


async def ack_flow_messages(link: Link, keys: QueueKeys, *, entries: Sequence[str]) -> int:
    left: int = await _ack_flow_messages(link, keys, list(entries))
    return left


async def report(
    link: Link,
    keys: QueueKeys,
    *,
    lines_most: int,
    log_ttl: int,
    reported: bytes,
    jobs: Sequence[Argument],
) -> int:
    kept: int = await _report(link, keys, [keys.group, lines_most, log_ttl, reported, *jobs])
    return kept


async def once_set(link: Link, keys: QueueKeys, *, job: JobKey, name: str, value: bytes) -> int:
    there: int = await _once_set(link, keys, [keys.group, job, name, value])
    return there


async def once_all(link: Link, keys: QueueKeys, *, job: JobKey) -> list[bytes]:
    pairs: list[bytes] = await _once_all(link, keys, [job])
    return pairs


async def arrived(link: Link, keys: QueueKeys, *, pairs: Sequence[JobKey]) -> list[int]:
    answers: list[int] = await _arrived(link, keys, [*pairs])
    return answers


async def kv_set(
    link: Link,
    keys: KvKeys,
    *,
    name: str,
    compare: str,
    expected: bytes,
    remove: bool,
    value: bytes,
    ttl: str,
) -> int:
    done: int = await _kv_set(link, keys, [name, compare, expected, int(remove), value, ttl])
    return done


async def kv_all(link: Link, keys: KvKeys) -> list[bytes]:
    pairs: list[bytes] = await _kv_all(link, keys, [])
    return pairs


async def record(
    link: Link, keys: KvKeys, *, name: str, value: bytes, keep_ms: int, most: int
) -> int:
    removed: int = await _record(link, keys, [name, value, keep_ms, most])
    return removed


async def records(
    link: Link, keys: KvKeys, *, before: str, limit: int, keep_ms: int
) -> list[bytes]:
    pairs: list[bytes] = await _records(link, keys, [before, limit, keep_ms])
    return pairs


async def stats(
    link: Link, keys: Sequence[QueueKeys], *, since: int, most: int
) -> list[list[list[bytes]]]:
    minutes: list[list[list[bytes]]] = await _stats.of_each(link, keys, [since, most])
    return minutes
