"""The part of the Redis store that removes queues."""

from __future__ import annotations

import logging

from headrace.store.oddities import readable
from headrace.store.redis import scripts
from headrace.store.redis.faults import Refused
from headrace.store.redis.keys import QueueKeys, queues_key
from headrace.store.redis.surveying import RedisSurveys

log = logging.getLogger("headrace.store")

_PAGE = 1000


class RedisRemoving(RedisSurveys):
    """See `headrace.store.contract.Store`."""

    async def remove(self, name: str, *, force: bool = False) -> int | None:
        listed, link = queues_key(self.namespace), self.links().send
        names: list[bytes] = await link.call("SMEMBERS", listed, key=listed)
        known = next((raw for raw in names if readable(raw) == name), None)
        if known is None:
            return None
        if known == name.encode("utf-8", "surrogatepass"):
            keys = self.keys(name)
            held = await scripts.remove(link, keys, events=self.events_most, force=force)
            if held:
                return held
            if force:
                await self._forget_rest(keys)
        await link.call("SREM", listed, known, key=listed)
        self._announced.pop(name, None)
        return 0

    async def _forget_rest(self, keys: QueueKeys) -> None:
        """Keys that have the names of jobs, lanes or limits in theirs; an empty queue has none that
        do not expire."""
        try:
            for pattern in keys.patterns:
                await self._forget_all(pattern, keys.jobs)
        except Refused as error:
            log.info("traces of jobs of queue %r are left: %s", keys.queue, error)

    async def _forget_all(self, pattern: str, key: str) -> None:
        ask, cursor = self.links().ask, b""
        while cursor != b"0":
            scan = ("SCAN", cursor or b"0", "MATCH", pattern, "COUNT", _PAGE)
            cursor, found = await ask.call(*scan, key=key)
            if found:
                await ask.call("UNLINK", *found, key=key)
