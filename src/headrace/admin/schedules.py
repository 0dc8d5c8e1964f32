"""Questions and actions about schedules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.admin.context import AdminContext
from headrace.admin.recorded import recorded
from headrace.core.clock import to_datetime
from headrace.core.display import period_text
from headrace.core.job import ids
from headrace.core.job.envelope import FORMAT, Envelope
from headrace.core.job.state import State
from headrace.core.schedule.schedule import MOST_RECENT, Record, tick_id
from headrace.errors import HeadraceError
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.client.job import Job
    from headrace.client.schedule import Schedule


_QUEUES_ASKED = 5


@dataclass(frozen=True, slots=True)
class TickRun:
    """The job of a tick, or of `run_schedule`."""

    tick: datetime
    """When it was sent, for a job of `run_schedule`."""
    id: str
    """The id of the job."""
    state: State | None = None
    """None if nothing is kept of it."""
    reason: str | None = None
    """Why it is dead."""
    manual: bool = False
    """Whether `run_schedule` sent it, outside of the ticks."""


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """What a schedule sends, and how its latest jobs are."""

    queue: str
    """The queue that its jobs go to."""
    arguments: Any
    """As plain values, for showing."""
    runs: tuple[TickRun, ...]
    """Up to ten jobs, the latest first: those of ticks, and those of `run_schedule`."""


class ScheduleAdmin(AdminContext):
    """Lists, runs, pauses, resumes and removes schedules. `ScheduleNotFound` if there is none of
    the name."""

    async def schedules(self) -> list[Schedule]:
        """All schedules, by name; `app.schedules` makes and changes them."""
        return await self._app.schedules.list()

    async def schedule_ticks(self, name: str, count: int = 5) -> list[datetime]:
        """The next times of a schedule, in its time zone; none while it is paused, after its end,
        or if it cannot be read.

        Args:
            name: The name of the schedule.
            count: How many at most.
        """
        return await self._app.schedules.ticks(name, count)

    async def schedule_runs(self, names: Collection[str]) -> dict[str, ScheduleRun]:
        """What these schedules send, and the latest jobs of each. One call to the store, and one
        for each of the first five queues.

        Args:
            names: The names of schedules.
        """
        records = await self._app.schedules.records()
        found: dict[str, ScheduleRun] = {}
        for name in names:
            with suppress(HeadraceError, KeyError):
                found[name] = self._run(name, records[name])
        for queue in list(dict.fromkeys(run.queue for run in found.values()))[:_QUEUES_ASKED]:
            mine = {name: run for name, run in found.items() if run.queue == queue}
            seen = await self._jobs_in(queue, [tick for run in mine.values() for tick in run.runs])
            for name, run in mine.items():
                found[name] = replace(run, runs=tuple(seen[tick.id] for tick in run.runs))
        return found

    async def _jobs_in(self, queue: str, runs: Sequence[TickRun]) -> dict[str, TickRun]:
        """The runs with the states of their jobs, by id."""
        store = await self._store()
        seen = await store.get(queue, [ids.to_id(run.id) for run in runs]) if runs else []
        return {
            run.id: run if job is None else replace(run, state=job.state, reason=_why_dead(job))
            for run, job in zip(runs, seen, strict=True)
        }

    def _run(self, name: str, record: Record) -> ScheduleRun:
        given = record.definition
        envelope = Envelope(FORMAT, b"", given.task, given.payload, given.overrides)
        runs = [
            *(TickRun(to_datetime(at), ids.to_text(tick_id(name, at))) for at in record.recent),
            *(TickRun(to_datetime(at), ids.to_text(id), manual=True) for at, id in record.manual),
        ]
        latest = sorted(runs, key=lambda run: run.tick, reverse=True)[:MOST_RECENT]
        return ScheduleRun(given.queue, self._redaction.arguments(envelope), tuple(latest))

    @recorded
    async def run_schedule(self, name: str) -> Job[Any]:
        """Send one job of a schedule now, paused or not; it does not count as a tick.

        Args:
            name: The name of the schedule.
        """
        return await self._app.schedules.run_now(name)

    @recorded
    async def pause_schedule(self, name: str) -> Schedule:
        """Stop a schedule from firing until `resume_schedule`, whatever is deployed meanwhile.

        Args:
            name: The name of the schedule.
        """
        await self._note_schedule_pause(name, paused=True)
        return await self._app.schedules.pause(name)

    @recorded
    async def resume_schedule(self, name: str) -> Schedule:
        """Undo `pause_schedule`. Ticks that were missed are not made up for.

        Args:
            name: The name of the schedule.
        """
        await self._note_schedule_pause(name, paused=False)
        return await self._app.schedules.resume(name)

    @recorded
    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule; jobs that it has sent stay. If code declares it, the next worker that
        starts with that code creates it again.

        Args:
            name: The name of the schedule.
        """
        if self._action is not None:
            for each in await self._named(name):
                self._action.changed("schedule", _words(each), None)
        await self._app.schedules.remove(name)

    async def _note_schedule_pause(self, name: str, *, paused: bool) -> None:
        """Note for the record, if there is one, whether it was paused."""
        if self._action is not None:
            for each in await self._named(name):
                if each.paused is not paused:
                    self._action.changed("paused", each.paused, paused)

    async def _named(self, name: str) -> list[Schedule]:
        return [each for each in await self._app.schedules.list() if each.name == name]


def _why_dead(job: JobSnapshot) -> str | None:
    return (job.reason or None) if job.state is State.DEAD else None


def _words(schedule: Schedule) -> str:
    return f"{schedule.task}, {schedule.cron or f'every {period_text(schedule.every or 0)}'}"
