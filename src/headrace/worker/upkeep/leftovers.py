"""Tells of shards that a topic once had and that nobody reads any more."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.queue_names import log_source
from headrace.store.contract import Store

if TYPE_CHECKING:
    from headrace.client.topic.topic import Topic
    from headrace.store.topics import GroupState

log = logging.getLogger("headrace.worker")


async def report_leftovers(store: Store, topics: Mapping[str, Topic[Any]]) -> None:
    """Warn of each topic that has something in shards beyond those that the app declares: workers
    read and trim only these."""
    left: dict[str, int] = {}
    logs = await store.logs() if topics else []
    for name in await _holding_anything(store, [log for log in logs if _is_beyond(log, topics)]):
        topic, shard = log_source(name)
        left[topic] = max(shard + 1, left.get(topic, 0))
    for topic, shards in left.items():
        log.warning(
            "topic %r is declared with shards=%d, but there are events in shards that it had "
            "before, which nobody reads: run a worker with shards=%d until headrace topics show "
            "%s has nothing in them",
            topic,
            topics[topic].options.shards,
            shards,
            # To be pasted into a shell.
            shlex.quote(topic),
        )


def _is_beyond(name: str, topics: Mapping[str, Topic[Any]]) -> bool:
    topic, shard = log_source(name)
    return topic in topics and shard >= topics[topic].options.shards


async def _holding_anything(store: Store, logs: Sequence[str]) -> list[str]:
    """Logs that hold events, or of which a group has taken some that are not settled."""
    if not logs:
        return []
    lengths, groups = await store.lengths(logs), await store.groups(logs)
    return [log for log in logs if lengths[log] or any(map(_is_busy, groups[log]))]


def _is_busy(group: GroupState) -> bool:
    counts = group.counts
    return bool(counts.waiting + counts.running + counts.scheduled + counts.blocked)
