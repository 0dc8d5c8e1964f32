"""Replays dead jobs of flows: where one died because another failed, that one is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.errors import ConfigError
from headrace.store.flow_values import Cause

if TYPE_CHECKING:
    from headrace.store.contract import Store


class FlowReplay:
    """Its `send` has the signature of a store's verbs."""

    def __init__(self, store: Store, by: str = "") -> None:
        """`by` is who asks for it, if that is known."""
        self._store = store
        self._by = by
        self.replayed: set[Cause] = set()
        """Each is replayed once: it may fail again while those that wait for it are looked at."""
        self.stuck: dict[JobId, Cause] = {}
        """Jobs that can never run, because the one that failed before them is not kept any more."""

    async def send(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        """For each job whether it was replayed, or a job that keeps it from running."""
        sent = await self.replay(queue, job_ids)
        left = [job_id for job_id, done in zip(job_ids, sent, strict=True) if not done]
        resumed = await self.resume(queue, left) if left else set()
        return [done or job_id in resumed for job_id, done in zip(job_ids, sent, strict=True)]

    async def replay(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        """For each job whether it was replayed, now or before."""
        named = [Cause(queue, job_id) for job_id in job_ids]
        new = [cause for cause in named if cause not in self.replayed]
        if new:
            new_ids = [cause.job_id for cause in new]
            sent = await self._store.replay(queue, new_ids, by=self._by)
            self.replayed.update(cause for cause, done in zip(new, sent, strict=True) if done)
        return [cause in self.replayed for cause in named]

    async def resume(self, queue: str, job_ids: Sequence[JobId]) -> set[JobId]:
        """Replay what failed before these jobs; returns those that go on."""
        resumed: set[JobId] = set()
        causes = await self._causes(queue, job_ids)
        while causes:
            await self._replay(causes.values())
            resumed |= {job_id for job_id, cause in causes.items() if cause in self.replayed}
            for job_id, cause in causes.items():
                if cause not in self.replayed and await self._is_forgotten(cause):
                    self.stuck[job_id] = cause
            # Another may have failed too. In another queue the replay may not have arrived yet.
            before, causes = causes, await self._causes(queue, list(causes))
            causes = {job_id: cause for job_id, cause in causes.items() if cause != before[job_id]}
        return resumed

    def refuse_stuck(self) -> None:
        """`ConfigError` if any job can never run."""
        for job_id, cause in self.stuck.items():
            raise ConfigError(
                f"job {ids.to_text(job_id)} cannot run again: it waited for job "
                f"{ids.to_text(cause.job_id)} of queue {cause.queue!r}, which failed and was "
                "purged since; send its flow again"
            )

    async def _is_forgotten(self, cause: Cause) -> bool:
        (seen,) = await self._store.get(cause.queue, [cause.job_id])
        return seen is None

    async def _causes(self, queue: str, job_ids: Sequence[JobId]) -> dict[JobId, Cause]:
        snapshots = await self._store.get(queue, job_ids, bodies=True)
        return {
            job_id: seen.cause
            for job_id, seen in zip(job_ids, snapshots, strict=True)
            if seen is not None and seen.state is State.DEAD and seen.cause is not None
        }

    async def _replay(self, causes: Iterable[Cause]) -> None:
        by_queue: dict[str, list[JobId]] = {}
        for cause in dict.fromkeys(causes):
            by_queue.setdefault(cause.queue, []).append(cause.job_id)
        for queue, job_ids in by_queue.items():
            await self.replay(queue, job_ids)
