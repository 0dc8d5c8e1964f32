"""The names of what a worker reads: queues, and the groups of topics.

A topic's log is `@orders`, its further shards `@orders#1`, `@orders#2`; what a group of the topic
still has to handle is in a queue of its own, `billing@orders`, beside the log. Stores treat them as
queues, and act on the `@`.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from headrace.core.bounds import check_name
from headrace.errors import ConfigError

_AT, _SHARD = "@", "#"


class GroupSource(NamedTuple):
    """The parts of the name of a group's queue."""

    group: str
    topic: str
    shard: int

    @property
    def log(self) -> str:
        return log_name(self.topic, self.shard)


def log_name(topic: str, shard: int = 0) -> str:
    """The log of a topic, or of one shard. The first shard has the plain name, so that a topic can
    get more shards later."""
    return f"{_AT}{topic}{_SHARD}{shard}" if shard else f"{_AT}{topic}"


def group_queue(topic: str, group: str, shard: int = 0) -> str:
    """The queue of a group for one shard."""
    return f"{group}{log_name(topic, shard)}"


def is_log(queue: str) -> bool:
    return queue.startswith(_AT)


def log_source(log: str) -> tuple[str, int]:
    """The topic that a log belongs to, and which of its shards it is."""
    topic, _, shard = log.removeprefix(_AT).partition(_SHARD)
    return topic, int(shard) if shard.isdigit() else 0


def group_source(queue: str) -> GroupSource | None:
    """The group and topic that a queue belongs to; None for an ordinary queue or a log."""
    group, at, rest = queue.partition(_AT)
    if not at or not group:
        return None
    topic, _, shard = rest.partition(_SHARD)
    return GroupSource(group, topic, int(shard) if shard.isdigit() else 0)


def shard_in(queue: str) -> int:
    """The shard in the name of a group's queue or a log."""
    _, _, shard = queue.rpartition(_AT)[2].partition(_SHARD)
    return int(shard) if shard.isdigit() else 0


def shard_of(key: str, shards: int) -> int:
    """The shard that all events of a key go to: the CRC-32 of its UTF-8 bytes, modulo the number of
    shards, on every machine and in every version."""
    return zlib.crc32(key.encode()) % shards if shards > 1 else 0


def check_queue(what: str, name: object) -> str:
    """`name` if it can be the name of an ordinary queue."""
    checked = check_name(what, name)
    if _AT in checked:
        raise ConfigError(f"{what} {checked!r} contains '@', which stands in names of topics' logs")
    return checked


def check_topic(what: str, name: object) -> str:
    """`name` if it can be the name of a topic or a group."""
    checked = check_name(what, name)
    if _AT in checked or _SHARD in checked:
        raise ConfigError(f"{what} {checked!r} contains '@' or '#': leave them out")
    return checked
