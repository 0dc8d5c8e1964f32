"""The store on one Redis or Valkey server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.core.call import Parcel
from headrace.core.ids import JobKey
from headrace.core.job import State, decode_verdict
from headrace.errors import ConfigError
from headrace.store.contract import Counts, DeadJob, DeadPage, Hear, Sighting, Subscription
from headrace.store.loops import LoopLocal
from headrace.store.redis import scripts
from headrace.store.redis.consumer import RedisConsumer
from headrace.store.redis.ear import Ear
from headrace.store.redis.keys import QueueKeys, queues_key, unsigned
from headrace.store.redis.link import Link
from headrace.store.redis.server import Server

_ANNOUNCED_FOR = 60.0


class LoopLinks:
    """The connections of one event loop: one to send, one to ask, one to listen."""

    def __init__(self, server: Server) -> None:
        self.send = Link(server.connect)
        self.ask = Link(server.connect, repeats=True)
        self.ear = Ear(server.connect)

    async def close(self) -> None:
        await self.ear.close()
        await self.send.drop()
        await self.ask.drop()


class RedisStore:
    """See `headrace.store.contract.Store`."""

    def __init__(
        self, url: str, *, namespace: str, crash_limit: int, require_durable: bool = False
    ) -> None:
        self.namespace = namespace
        self.crash_limit = crash_limit
        self.server = Server(url)
        self._require_durable = require_durable
        self._links: LoopLocal[LoopLinks] = LoopLocal()
        self._keys: dict[str, QueueKeys] = {}
        self._announced: dict[str, float] = {}

    async def open(self) -> None:
        await self.server.check(self.links().ask, require_durable=self._require_durable)

    async def close(self) -> None:
        links = self._links.pop()
        if links is not None:
            await links.close()

    async def time_ms(self) -> int:
        seconds, micros = await self.links().ask.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def append(
        self, queue: str, parcels: Sequence[Parcel], *, repeat: bool = False
    ) -> list[bool]:
        if not parcels:
            return []
        links, keys = self.links(), self.keys(queue)
        if self._announced.get(queue, 0.0) < time.monotonic():
            await self.announce(links.send, queue)
        known = await scripts.append(links.send, keys, check=repeat, parcels=parcels)
        added = [True] * len(parcels)
        for position in known:
            added[position - 1] = False
        return added

    async def look(
        self, queue: str, keys: Sequence[JobKey], *, bodies: bool = False
    ) -> list[Sighting | None]:
        sights = await scripts.look(
            self.links().ask, self.keys(queue), bodies=bodies, job_keys=keys
        )
        return [_sighting(sight) for sight in sights]

    async def hear_finished(self, queue: str, hear: Hear) -> Subscription:
        return await self.links().ear.add(self.keys(queue).finished_channel, hear)

    async def queues(self) -> list[str]:
        names = await self.links().ask.call("SMEMBERS", queues_key(self.namespace))
        return sorted(name.decode() for name in names)

    async def count(self, queue: str) -> Counts:
        return Counts(*await scripts.count(self.links().ask, self.keys(queue)))

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadPage:
        start = f"({cursor}" if cursor else "+"
        entries = await self.links().ask.call(
            "XREVRANGE", self.keys(queue).dead, start, "-", "COUNT", limit
        )
        jobs = [_dead_job(entry_id, fields) for entry_id, fields in entries]
        following = entries[-1][0].decode() if len(entries) == limit else ""
        return DeadPage(jobs, following)

    async def replay(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        replayed = await scripts.replay(self.links().send, self.keys(queue), job_keys=keys)
        return [bool(done) for done in replayed]

    async def purge(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        purged = await scripts.purge(self.links().send, self.keys(queue), job_keys=keys)
        return [bool(done) for done in purged]

    def consumer(self, name: str, queues: Sequence[str], lease: float) -> RedisConsumer:
        if not queues:
            raise ConfigError("a worker needs at least one queue")
        return RedisConsumer(self, name, queues, lease)

    async def announce(self, link: Link, *queues: str) -> None:
        """Add to the list of queues; again now and then, in case someone emptied the server."""
        await link.call("SADD", queues_key(self.namespace), *queues)
        until = time.monotonic() + _ANNOUNCED_FOR
        self._announced.update(dict.fromkeys(queues, until))

    def keys(self, queue: str) -> QueueKeys:
        keys = self._keys.get(queue)
        if keys is None:
            keys = self._keys[queue] = QueueKeys(self.namespace, queue)
        return keys

    def links(self) -> LoopLinks:
        return self._links.get() or self._links.set(LoopLinks(self.server))


def _sighting(sight: list[Any]) -> Sighting | None:
    state, due, worker, deliveries, reason, envelope, past, verdict = sight
    if not state:
        if not verdict:
            return None
        return Sighting(decode_verdict(verdict).state, verdict)
    return Sighting(
        State(state.decode()),
        verdict,
        int(float(due)) or None,
        unsigned(worker.decode()),
        deliveries,
        reason.decode(),
        envelope,
        past,
    )


def _dead_job(entry_id: bytes, fields: list[bytes]) -> DeadJob:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    died_ms = int(entry_id.split(b"-")[0])
    return DeadJob(named[b"k"], died_ms, named[b"r"].decode(), named[b"j"], named[b"h"])
