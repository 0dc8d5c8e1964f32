"""Tells of shards that a topic once had and that nobody reads any more."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.sources import log_source
from headrace.store.contract import Store

if TYPE_CHECKING:
    from headrace.client.topic import Topic

log = logging.getLogger("headrace.worker")


async def report_leftovers(store: Store, topics: Mapping[str, Topic[Any]]) -> None:
    """Warn of each topic that has something in shards beyond those that the app declares: workers
    read and trim only these."""
    left: dict[str, int] = {}
    for name in await store.logs() if topics else ():
        topic, shard = log_source(name)
        beyond = topic in topics and shard >= topics[topic].options.shards
        if beyond and await _holds_anything(store, name):
            left[topic] = max(shard + 1, left.get(topic, 0))
    for topic, shards in left.items():
        log.warning(
            "topic %r is declared with shards=%d, but there are events in shards that it had "
            "before, which nobody reads: run a worker with shards=%d until 'headrace topics show "
            "%s' has nothing in them",
            topic,
            topics[topic].options.shards,
            shards,
            topic,
        )


async def _holds_anything(store: Store, name: str) -> bool:
    """Whether the log holds events, or one of its groups has taken some that are not settled."""
    if await store.length(name):
        return True
    counts = [group.counts for group in await store.groups(name)]
    return any(each.waiting + each.running + each.scheduled + each.blocked for each in counts)
