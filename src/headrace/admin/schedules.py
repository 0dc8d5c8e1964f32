"""Questions and actions about schedules."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.admin.context import AdminContext
from headrace.admin.recorded import recorded

if TYPE_CHECKING:
    from headrace.client.job import Job
    from headrace.client.schedule import Schedule


class ScheduleAdmin(AdminContext):
    """Lists, runs, pauses, resumes and removes schedules. `ScheduleNotFound` if there is none of
    the name."""

    async def schedules(self) -> list[Schedule]:
        """All schedules, by name; `app.schedules` makes and changes them."""
        return await self._app.schedules.list()

    async def schedule_ticks(self, name: str, count: int = 5) -> list[datetime]:
        """The next times of a schedule, in its time zone; none while it is paused, after its end,
        or if it cannot be read."""
        return await self._app.schedules.ticks(name, count)

    @recorded
    async def run_schedule(self, name: str) -> Job[Any]:
        """Send one job of a schedule now, paused or not; it does not count as a tick."""
        return await self._app.schedules.run_now(name)

    @recorded
    async def pause_schedule(self, name: str) -> Schedule:
        """Stop a schedule from firing until `resume_schedule`, whatever is deployed meanwhile."""
        await self._note_schedule_pause(name, paused=True)
        return await self._app.schedules.pause(name)

    @recorded
    async def resume_schedule(self, name: str) -> Schedule:
        """Undo `pause_schedule`. Ticks that were missed are not made up for."""
        await self._note_schedule_pause(name, paused=False)
        return await self._app.schedules.resume(name)

    @recorded
    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule; jobs that it has sent stay. If code declares it, the next worker that
        starts with that code creates it again."""
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


def _words(schedule: Schedule) -> str:
    return f"{schedule.task}, {schedule.cron or f'every {schedule.every} s'}"
