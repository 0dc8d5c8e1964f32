"""Flows: the jobs of a flow, which waits for which, and going on with those that failed."""

from __future__ import annotations

from headrace.admin.bodies import opened
from headrace.admin.jobs.flow_survey import FlowInfo, flow_around
from headrace.admin.jobs.job_admin import JobAdmin, unfinished
from headrace.admin.recorded import recorded
from headrace.core.job import ids
from headrace.errors import ConfigError


class FlowAdmin(JobAdmin):
    """Shows flows, and resumes them."""

    async def flow(self, id: str, queue: str | None = None, *, times: bool = False) -> FlowInfo:
        """The flow that a job belongs to; the job alone if it is in none, or too little is kept.
        `JobNotFound` if there is no such job. With `times`, also when its jobs ran, if there are at
        most a hundred: their bodies are read for that. A few calls to the store, and up to four
        for each queue of the flow; a few more if jobs were added while it ran.

        Args:
            id: The id of a job or an event.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
            times: Whether to say when its jobs ran.
        """
        name, key, seen = unfinished(await self._found(id, queue))
        return await flow_around(await self._store(), name, key, seen, times=times)

    @recorded
    async def resume_flow(self, id: str) -> int:
        """Replay the jobs that failed of the flow that a job belongs to, as `FlowJob.resume` does;
        returns how many. `JobNotFound` if there is no such job.

        Args:
            id: The id of a job or an event.
        """
        _, _, seen = unfinished(await self._found(id))
        envelope = opened(seen.envelope)
        if envelope is None or not envelope.overrides.flow:
            raise ConfigError(f"job {id} is in no flow: replay() sends a dead job again")
        return await self._app.flow(ids.to_text(envelope.overrides.flow)).resume(by=self._actor)
