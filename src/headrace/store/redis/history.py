"""The history of a queue on Redis: pages of it, and forgetting what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.store.history.chunk import without
from headrace.store.history.page import (
    UNREADABLE,
    Positions,
    Shelf,
    last_lives,
    page_of,
    positions_in,
)
from headrace.store.oddities import readable
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.surveys import RedisSurveys
from headrace.store.values import EndedJobPage

_MOST_BYTES = 4 * 1024 * 1024


class RedisHistory(RedisSurveys):
    """See `headrace.store.contract.Store`."""

    async def history(
        self, queue: str, cursor: str = "", limit: int = 100, *, state: State | None = None
    ) -> EndedJobPage:
        start, keys, ask = positions_in(cursor), self.keys(queue), self.links().ask
        now_ms, *found = await script_stubs.history(
            ask,
            keys,
            limit=limit,
            bytes_most=_MOST_BYTES,
            going_on=start is not None,
            positions=_arguments(start),
        )
        odd = partial(self.oddities.note, keys.history)
        page = page_of([_shelf(*each) for each in found], start, limit, now_ms, odd, state)
        if not page.jobs:
            return page
        # Read after the history, so that a job which was sent again is not taken for an ended one.
        ids = [job.job_id for job in page.jobs]
        times = await script_stubs.ended_times(ask, keys, job_ids=ids)
        return last_lives(page, dict(zip(ids, times, strict=True)))

    async def forget(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        keys = self.keys(queue)
        places = await script_stubs.places(self.links().ask, keys, job_ids=job_ids)
        ended = [job_id for job_id, place in zip(job_ids, places, strict=True) if not place]
        forgotten: set[JobId] = set()
        while ended and (chunks := await self._chunks_with(keys, ended)):
            for (shelf, number), (data, job_ids_in) in chunks.items():
                if await self._replace(keys, shelf, number, data, ended):
                    forgotten.update(job_ids_in)
        had_results = await self._send_forget(keys, b"", b"", b"", (b"", b""), ended)
        forgotten.update(id for id, had in zip(ended, had_results[1:], strict=True) if had)
        return [job_id in forgotten for job_id in job_ids]

    async def _chunks_with(
        self, keys: QueueKeys, job_ids: Sequence[JobId]
    ) -> dict[tuple[bytes, bytes], tuple[bytes, list[JobId]]]:
        """The chunks that hold the last of each of these jobs: data, and the jobs."""
        found = await script_stubs.get(
            self.links().ask, [keys], bodies=True, inputs_most=0, job_ids=job_ids
        )
        chunks: dict[tuple[bytes, bytes], tuple[bytes, list[JobId]]] = {}
        for job_id, (*_, ended, _, _) in zip(job_ids, found, strict=True):
            if ended:
                _, shelf, number, _, data = ended
                known, inside = chunks.get((shelf, number), (b"", []))
                chunks[shelf, number] = known or data, [*inside, job_id]
        return chunks

    async def _replace(
        self, keys: QueueKeys, shelf: bytes, number: bytes, data: bytes, job_ids: Sequence[JobId]
    ) -> bool:
        """Take jobs out of a chunk; False if it has changed meanwhile."""
        try:
            left = without(data, set(job_ids))
        except UNREADABLE as error:
            self.oddities.note(keys.history, f"chunk {readable(number)}: {error}")
            left = b"", b""
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()
        replaced, *_ = await self._send_forget(keys, shelf, number, digest, left, [])
        return bool(replaced)

    async def _send_forget(
        self,
        keys: QueueKeys,
        shelf: bytes,
        number: bytes,
        digest: bytes,
        left: tuple[bytes, bytes],
        job_ids: Sequence[JobId],
    ) -> list[int]:
        marks, data = left
        return await script_stubs.forget_ended(
            self.links().send,
            keys,
            shelf=shelf,
            chunk=number,
            digest=digest,
            marks=marks,
            data=data,
            job_ids=job_ids,
        )


def _arguments(start: Positions | None) -> list[Argument]:
    return [part for name, at in (start or {}).items() for part in (name, *at)]


def _shelf(name: bytes, keep_ms: int, first: int, hidden: int, chunks: list[Any]) -> Shelf:
    pairs = zip(map(int, chunks[::2]), chunks[1::2], strict=True)
    return Shelf(readable(name), keep_ms, first, hidden, list(pairs))
