"""The handle of a flow whose id is known."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from headrace.client.flow_job import FlowJob
from headrace.client.job import Job
from headrace.core.flow.counts import FlowCounts
from headrace.core.job import ids
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.state import State
from headrace.errors import ConfigError, HeadraceError, JobNotFound
from headrace.store.contract import JobSnapshot


class FoundFlow(FlowJob[Any]):
    """A flow as another process sent it. It asks every queue of the store for its jobs. `jobs` has
    the last alone, or the first of a group, and `result` is what that one returned."""

    __slots__ = ("_is_checked",)

    def __init__(self, last: Job[Any]) -> None:
        super().__init__([last], [last], gives_list=False)
        self._is_checked = False

    async def _sent_by_queue(self, jobs: Iterable[Job[Any]]) -> dict[str, list[Job[Any]]]:
        store = (await self._app.session()).store
        found: dict[str, list[Job[Any]]] = {queue: [] for queue in await store.queues()}
        # The first of a large group may be forgotten before the group has ended.
        with suppress(JobNotFound):
            await self._check()
            found[await self._found_queue()] = list(jobs)
        return found

    async def _check(self) -> None:
        """Refuse the id of a job that is not a flow's."""
        if self._is_checked:
            return
        flow = _flow_of(await self._snapshot(bodies=True))
        if flow == b"":
            raise ConfigError(f"job {self.id} is in no flow: app.job() gives its handle")
        if flow is not None and flow != self.job_id:
            raise ConfigError(f"job {self.id} is part of a flow, whose id is {ids.to_text(flow)}")
        self._is_checked = True

    async def _look(self) -> tuple[State, FlowCounts]:
        state, counts = await super()._look()
        # The first job of a group may be done before the others.
        return counts.state if state is State.DONE and counts.live else state, counts

    async def _seen(self, jobs: Iterable[Job[Any]]) -> dict[Job[Any], JobSnapshot | None]:
        wanted = list(jobs)
        try:
            return await super()._seen(wanted)
        except JobNotFound:
            return dict.fromkeys(wanted)


def _flow_of(seen: JobSnapshot) -> bytes | None:
    """The id of the flow that a job is in, empty if it is in none; None if that is not known."""
    try:
        return decode_envelope(seen.envelope).overrides.flow if seen.envelope else None
    except HeadraceError:
        return None
