"""The Lua scripts about topics, each with the Python signature of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.store.redis.keys import PUMP, QueueKeys
from headrace.store.redis.link import Argument, Link
from headrace.store.redis.scripts import Script
from headrace.store.values import IdempotencyKey

_publish = Script("publish")
_draw = Script("draw")
_join = Script("join")
_rewind = Script("rewind")
_position = Script("position")
_trim = Script("trim")
_logs = Script("logs")
_member = Script("member")
_stopped = Script("stopped")
_free = Script("free")
_disband = Script("disband")


async def publish(
    link: Link,
    keys: QueueKeys,
    *,
    events: int,
    check: bool,
    most: int,
    drops: bool,
    gone: int,
    each: int,
    parcels: Sequence[Argument],
    idempotency: IdempotencyKey | None = None,
) -> list[int]:
    head: list[Argument] = [events, keys.queue, int(check), most, int(drops), gone, each]
    reply: list[int] = await _publish(link, keys, head + list(parcels), idempotency)
    return reply


async def draw(link: Link, keys: QueueKeys, *, events: int, limit: int) -> tuple[bytes, int]:
    last, more = await _draw(link, keys, [events, keys.queue, limit, PUMP])
    return last, more


async def join(
    link: Link, keys: QueueKeys, *, member: str, again: bool, kind: str, value: Argument
) -> int:
    arguments: list[Argument] = [keys.group, member, int(again), kind, value]
    is_new: int = await _join(link, keys, arguments)
    return is_new


async def rewind(link: Link, keys: QueueKeys, *, events: int, kind: str, value: Argument) -> int:
    moved: int = await _rewind(link, keys, [events, keys.queue, kind, value])
    return moved


async def position(link: Link, keys: QueueKeys, *, kind: str, value: Argument) -> bytes:
    id: bytes = await _position(link, keys, [kind, value])
    return id


async def trim(
    link: Link, keys: QueueKeys, *, retention: int, gone: int, most: int, ticket: int
) -> list[Any]:
    reply: list[Any] = await _trim(link, keys, [retention, gone, most, ticket])
    return reply


async def logs(link: Link, keys: Sequence[QueueKeys]) -> list[list[Any]]:
    sizes: list[list[Any]] = await _logs.of_each(link, keys, [])
    return sizes


async def member(link: Link, keys: Sequence[QueueKeys]) -> list[list[int]]:
    figures: list[list[int]] = await _member.of_each(link, keys, [])
    return figures


async def stopped(link: Link, keys: QueueKeys) -> list[Any]:
    found: list[Any] = await _stopped(link, keys, [])
    return found


async def free(link: Link, keys: QueueKeys, *, events: int, lane: str) -> int:
    was_stopped: int = await _free(link, keys, [events, keys.queue, lane])
    return was_stopped


async def disband(link: Link, keys: QueueKeys, *, events: int, expiry: int) -> int:
    there: int = await _disband(link, keys, [events, keys.queue, expiry])
    return there
