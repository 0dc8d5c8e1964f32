"""Schedules: the list, pause, resume and run now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.app import named
from headrace.core.display import period_text
from headrace.web.actions.form_actions import form_action
from headrace.web.page import HtmlPage
from headrace.web.rendering.values import format_line
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from headrace.admin import ScheduleRun, TickRun
    from headrace.client.schedule import Schedule

_IN_A_PAGE = 100
_TICKS = 5
# Schedules whose next ticks are read for one page; for the others, later updates read them.
_ASKED = 10
_KNOWN = 1_000


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    schedule: Schedule
    when: str
    ticks: list[datetime]
    runs: tuple[TickRun, ...]
    arguments: str


async def schedules(visit: Visit) -> HtmlPage:
    """Up to eight calls to the store, and one or two for each schedule whose next ticks are not
    cached."""
    search = visit.query.get("search", "")
    after = visit.query.get("after", "")
    found = await visit.admin.schedules()
    wanted = [each for each in found if search.casefold() in each.name.casefold()]
    shown = [each for each in wanted if each.name > after][: _IN_A_PAGE + 1]
    rows = shown[:_IN_A_PAGE]
    ticks = await _next_ticks(visit, rows)
    runs = await visit.admin.schedule_runs([each.name for each in rows])
    listed = [_row(visit, each, ticks.get(each.name, []), runs.get(each.name)) for each in rows]
    context = {
        "rows": listed,
        "total": len(wanted),
        "cursor": rows[-1].name if len(shown) > _IN_A_PAGE else "",
        "search": search,
    }
    return HtmlPage(
        "schedules.html", "Schedules", context, live=3.0, rows=list(map(_exported, listed))
    )


def _row(
    visit: Visit, schedule: Schedule, ticks: list[datetime], run: ScheduleRun | None
) -> ScheduleRow:
    given = None if run is None else named(visit.app, schedule.task, run.arguments)
    arguments = format_line(given) if given else ""
    return ScheduleRow(schedule, _when(schedule), ticks, run.runs if run else (), arguments)


def _exported(row: ScheduleRow) -> dict[str, Any]:
    schedule = msgspec.structs.asdict(row.schedule)
    return {**schedule, "arguments": row.arguments, "next_ticks": row.ticks, "runs": row.runs}


async def _next_ticks(visit: Visit, rows: list[Schedule]) -> dict[str, list[datetime]]:
    """The next ticks of each, cached until the first is over or the schedule changes."""
    known, asked = visit.dashboard.ticks, 0
    found: dict[str, list[datetime]] = {}
    if len(known) > _KNOWN:
        known.clear()
    for each in rows:
        if each.next_tick is None:
            continue
        mark = (each.name, each.next_tick, each.cron, each.every, each.end, each.limit)
        if mark not in known and asked < _ASKED:
            known[mark] = await visit.admin.schedule_ticks(each.name, _TICKS)
            asked += 1
        found[each.name] = known.get(mark) or [each.next_tick]
    return found


def _when(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"every {period_text(schedule.every)}"
    zone = "" if schedule.timezone == "UTC" else f" ({schedule.timezone})"
    return f"{schedule.cron or '?'}{zone}"


@form_action("run_schedule", "Run now")
async def run_schedule(visit: Visit) -> str:
    name = visit.asked("name")
    job = await visit.admin.run_schedule(name)
    return f"Ran schedule {name}: job {job.id}."


@form_action("pause_schedule", "Pause")
async def pause_schedule(visit: Visit) -> str:
    name = visit.asked("name")
    await visit.admin.pause_schedule(name)
    return f"Paused schedule {name}: it does not fire until it is resumed."


@form_action("resume_schedule", "Resume")
async def resume_schedule(visit: Visit) -> str:
    name = visit.asked("name")
    await visit.admin.resume_schedule(name)
    return f"Resumed schedule {name}. Ticks that it missed meanwhile are not made up for."
