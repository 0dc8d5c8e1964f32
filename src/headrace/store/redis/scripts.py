"""The Lua scripts, each with the Python signature of its arguments.

A script's header names its KEYS as attributes of `QueueKeys`, which is how they are filled in, and
its ARGV as the parameters of the function here of the same name; a test compares the two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from headrace.core.call import Parcel
from headrace.core.ids import JobKey
from headrace.store.redis.keys import GROUP, RETURNED, QueueKeys
from headrace.store.redis.link import Argument, Link


class Script:
    """A Lua file, and what its header says."""

    def __init__(self, name: str) -> None:
        source = _source(name)
        self.keys = tuple(_header(source, "KEYS").split())
        self.arguments = tuple(_header(source, "ARGV").split(", then ")[0].split())
        # The first line says to the server what the script may do, so the prelude comes second.
        flags, _, rest = source.partition("\n")
        self.body = f"{flags}\n{_source('prelude')}\n{rest}"
        self.sha = hashlib.sha1(self.body.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, link: Link, keys: QueueKeys, arguments: Sequence[Argument]) -> Any:
        return await link.run(self, [getattr(keys, name) for name in self.keys], arguments)


def _source(name: str) -> str:
    return files("headrace.store.redis").joinpath(f"lua/{name}.lua").read_text()


def _header(source: str, name: str) -> str:
    found = re.search(rf"^-- {name}: (.+)$", source, re.MULTILINE)
    return found[1] if found else ""


_append = Script("append")
_settle = Script("settle")
_renew = Script("renew")
_reclaim = Script("reclaim")
_promote = Script("promote")
_prepare = Script("prepare")
_leave = Script("leave")
_look = Script("look")
_replay = Script("replay")
_purge = Script("purge")
_count = Script("count")


async def append(
    link: Link, keys: QueueKeys, *, check: bool, parcels: Sequence[Parcel]
) -> list[int]:
    arguments: list[Argument] = [int(check), keys.result, keys.due_channel]
    for parcel in parcels:
        arguments += (parcel.key, _when(parcel), parcel.envelope)
    known: list[int] = await _append(link, keys, arguments)
    return known


def _when(parcel: Parcel) -> str:
    if parcel.at_ms is not None:
        return f"@{parcel.at_ms}"
    return f"+{parcel.delay_ms}" if parcel.delay_ms else ""


async def settle(
    link: Link,
    keys: QueueKeys,
    *,
    consumer: str,
    epoch: int,
    checked: bool,
    finished: bytes,
    dead_most: int,
    dead_ms: int,
    done: int,
    kept: int,
    again: int,
    dead: int,
    released: int,
    blocks: Sequence[Argument],
) -> list[bytes]:
    head: list[Argument] = [
        GROUP, RETURNED, consumer, epoch, int(checked), keys.result, keys.finished_channel,
        finished, keys.due_channel, dead_most, dead_ms, done, kept, again, dead, released,
    ]  # fmt: skip
    reply: list[bytes] = await _settle(link, keys, head + list(blocks))
    return reply


async def renew(
    link: Link, keys: QueueKeys, *, consumer: str, deliveries: Sequence[Argument]
) -> list[bytes]:
    lost: list[bytes] = await _renew(link, keys, [GROUP, consumer, *deliveries])
    return lost


async def reclaim(
    link: Link,
    keys: QueueKeys,
    *,
    consumer: str,
    limit: int,
    last_chance: bool,
    lease: int,
    interval: int,
    crash_limit: int,
    dead_ms: int,
) -> tuple[list[Any], list[int]]:
    entries, counts = await _reclaim(
        link,
        keys,
        [GROUP, RETURNED, consumer, limit, int(last_chance), lease, interval, crash_limit, dead_ms],
    )
    return entries, counts


async def promote(
    link: Link, keys: QueueKeys, *, consumer: str, limit: int, ticket: int
) -> tuple[int, int]:
    moved, wait = await _promote(link, keys, [consumer, limit, ticket])
    return moved, wait


async def prepare(link: Link, keys: QueueKeys) -> int:
    return int(await _prepare(link, keys, [GROUP]))


async def leave(link: Link, keys: QueueKeys, *, consumer: str) -> int:
    back: int = await _leave(link, keys, [GROUP, RETURNED, consumer])
    return back


async def look(
    link: Link, keys: QueueKeys, *, bodies: bool, job_keys: Sequence[JobKey]
) -> list[list[Any]]:
    sights: list[list[Any]] = await _look(
        link, keys, [GROUP, RETURNED, keys.result, int(bodies), *job_keys]
    )
    return sights


async def replay(link: Link, keys: QueueKeys, *, job_keys: Sequence[JobKey]) -> list[int]:
    replayed: list[int] = await _replay(link, keys, [keys.result, *job_keys])
    return replayed


async def purge(link: Link, keys: QueueKeys, *, job_keys: Sequence[JobKey]) -> list[int]:
    purged: list[int] = await _purge(link, keys, [keys.result, *job_keys])
    return purged


async def count(link: Link, keys: QueueKeys) -> list[int]:
    counts: list[int] = await _count(link, keys, [GROUP, RETURNED])
    return counts
