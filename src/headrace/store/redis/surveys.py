"""The Redis store's verbs that read the state of queues, many in one call where possible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from headrace.core.job.capacity import RUNNERS, Runner
from headrace.core.job.envelope import Malformed
from headrace.core.job.ids import JobId
from headrace.store.contract import MOST_INPUTS, JobSnapshot
from headrace.store.history.chunk import decode_chunk
from headrace.store.history.page import UNREADABLE
from headrace.store.oddities import readable
from headrace.store.redis import encoding, facts, script_stubs
from headrace.store.redis.connection.cluster import slot_of
from headrace.store.redis.connection.link import Link
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.sending import RedisSending
from headrace.store.values import Counts, EndedJob, MinuteCount, QueueState, RunnerState

# The server does nothing else while a script runs: this many queues take a few milliseconds.
_TOGETHER = 200
_MINUTES_TOGETHER = 3000

Reply = TypeVar("Reply")
Ask = Callable[[Link, Sequence[QueueKeys]], Awaitable[list[Reply]]]
"""A call whose reply has one item for each queue; only for the first ones if that is a lot."""


def _runners(numbers: Sequence[int]) -> dict[Runner, RunnerState]:
    found: dict[Runner, RunnerState] = {}
    for at, runner in enumerate(RUNNERS):
        waiting, running, oldest = numbers[3 * at : 3 * at + 3]
        if waiting or running:
            found[runner] = RunnerState(waiting, running, oldest or None)
    return found


def _job_at(
    chunks: dict[tuple[bytes, bytes], list[EndedJob]], shelf: bytes, chunk: bytes, place: int
) -> EndedJob | None:
    jobs = chunks.get((shelf, chunk), [])
    return jobs[place] if place < len(jobs) else None


class RedisSurveys(RedisSending):
    """See `headrace.store.contract.Store`."""

    async def get(
        self, queue: str, job_ids: Sequence[JobId], *, bodies: bool = False
    ) -> list[JobSnapshot | None]:
        ask, queues = self.links().ask, [self.keys(queue)]
        most = MOST_INPUTS if bodies else 0
        snapshots = await script_stubs.get(
            ask, queues, bodies=bodies, inputs_most=most, job_ids=job_ids
        )
        ended = self.ended_in(queue, snapshots)
        seen = zip(job_ids, snapshots, ended, strict=True)
        return [self._snapshot(queue, key, snapshot, job) for key, snapshot, job in seen]

    async def locate(self, queues: Sequence[str], job_id: JobId) -> list[str]:
        get = partial(script_stubs.get, bodies=False, inputs_most=0, job_ids=[job_id])
        snapshots = await self.of_each(queues, get)
        found = zip(queues, snapshots, strict=True)
        return [
            queue
            for queue, snapshot in found
            if self._snapshot(queue, job_id, snapshot) is not None
        ]

    async def count(self, queue: str) -> Counts:
        (state,) = await self.survey([queue])
        return state.counts

    async def survey(self, queues: Sequence[str]) -> list[QueueState]:
        return await self.of_each(queues, self._states)

    async def _states(self, link: Link, keys: Sequence[QueueKeys]) -> list[QueueState]:
        # As they come: those of many thousand queues at a time would keep the loop for seconds.
        rows = await script_stubs.survey(link, keys)
        return [self._state(each.queue, row) for each, row in zip(keys, rows, strict=False)]

    async def stats(self, queues: Sequence[str], since_minute: int) -> dict[str, list[MinuteCount]]:
        stats = partial(script_stubs.stats, since=since_minute, most=_MINUTES_TOGETHER)
        counted = zip(queues, await self.of_each(queues, stats), strict=True)
        return {queue: self._counts(queue, minutes) for queue, minutes in counted}

    async def of_each(self, queues: Sequence[str], ask: Ask[Reply]) -> list[Reply]:
        """The reply of a script for each queue. In a cluster, one call covers only queues in the
        same slot; all nodes are asked at the same time."""
        if self.server.reads_span:
            return await self._in_turn(queues, ask)
        slots: dict[int, list[int]] = {}
        for at, queue in enumerate(queues):
            slots.setdefault(slot_of(self.keys(queue).ready), []).append(at)
        parts = [self._in_turn([queues[at] for at in places], ask) for places in slots.values()]
        # Each to its end, also after an error: nothing may still be running afterwards.
        answers = await asyncio.gather(*parts, return_exceptions=True)
        found: dict[int, Reply] = {}
        for places, answer in zip(slots.values(), answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            found.update(zip(places, answer, strict=True))
        return [found[at] for at in range(len(queues))]

    async def _in_turn(self, queues: Sequence[str], ask: Ask[Reply]) -> list[Reply]:
        link, found = self.links().ask, list[Reply]()
        while len(found) < len(queues):
            together = queues[len(found) : len(found) + _TOGETHER]
            found += await ask(link, [self.keys(queue) for queue in together])
        return found

    def _state(self, queue: str, row: Sequence[Any]) -> QueueState:
        runners = _runners(row[0])
        waiting = sum(state.waiting for state in runners.values())
        running = sum(state.running for state in runners.values())
        since = [state.oldest_ms for state in runners.values() if state.oldest_ms]
        paused = set(self.oddities.texts(self.keys(queue).paused, row[5:]))
        return QueueState(
            Counts(waiting, running, *row[1:4]),
            "" in paused,
            frozenset(paused - {""}),
            min(since, default=None),
            runners,
            row[4] or None,
        )

    def ended_in(self, queue: str, snapshots: Sequence[list[Any]]) -> list[EndedJob | None]:
        """What the history has of jobs, as `get.lua` found it."""
        chunks: dict[tuple[bytes, bytes], list[EndedJob]] = {}
        found = [snapshot[11] for snapshot in snapshots]
        for _, shelf, chunk, _, data in (each for each in found if len(each) > 1):
            if data:
                try:
                    chunks[shelf, chunk] = decode_chunk(data)
                except UNREADABLE as error:
                    name = f"{self.keys(queue).history}{readable(shelf)}"
                    self.oddities.note(name, f"chunk {readable(chunk)}: {error}")
        places = [each[1:4] if len(each) > 1 else None for each in found]
        return [_job_at(chunks, *place) if place else None for place in places]

    def _snapshot(
        self, queue: str, job_id: JobId, snapshot: list[Any], ended: EndedJob | None = None
    ) -> JobSnapshot | None:
        try:
            return encoding.snapshot(snapshot, ended)
        except Malformed as error:
            name = f"{self.keys(queue).result}{readable(job_id)}"
            self.oddities.note(name, str(error))
            return None

    def _counts(self, queue: str, minutes: Sequence[Sequence[bytes]]) -> list[MinuteCount]:
        counts, odd = facts.minute_counts(minutes)
        for minute in odd:
            self.oddities.note(f"{self.keys(queue).minute}{minute}", "a count is not a number")
        return counts
