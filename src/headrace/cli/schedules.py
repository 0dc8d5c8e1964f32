"""`headrace schedules`: list, pause, resume, remove and run schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.app_command import (
    Noun,
    acted,
    asked,
    confirm,
    json_option,
    of_app,
    of_words,
    yes_option,
)
from headrace.cli.output import moment, show_result, show_table
from headrace.core.display import period_text

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.client.schedule import Schedule

_HEADINGS = ("schedule", "when", "task", "queue", "next", "fired", "state")


@click.group(cls=Noun)
def schedules() -> None:
    """Show the schedules, pause, resume, remove and run them. Without a command: list."""


@schedules.command("list")
@of_app
@json_option
def list_(app: Headrace, as_json: bool) -> None:
    """Show the schedules, when each fires next, or why it does not."""
    found = asked(app, lambda app: app.admin.schedules())
    show_table(found, _HEADINGS, _row, nothing="no schedules", as_json=as_json)


@schedules.command()
@of_words("name")
@json_option
def pause(app: Headrace, name: str, as_json: bool) -> None:
    """Pause a schedule: it does not fire until resume."""
    schedule = acted(app, lambda admin: admin.pause_schedule(name))
    show_result(f"paused {name}", schedule, as_json=as_json)


@schedules.command()
@of_words("name")
@json_option
def resume(app: Headrace, name: str, as_json: bool) -> None:
    """Resume a schedule. Ticks that it missed are not made up for."""
    schedule = acted(app, lambda admin: admin.resume_schedule(name))
    show_result(f"resumed {name}", schedule, as_json=as_json)


@schedules.command()
@of_words("name")
@json_option
@yes_option
def remove(app: Headrace, name: str, as_json: bool, yes: bool) -> None:
    """Remove a schedule; jobs that it has sent stay.

    If code declares the schedule, the next worker that starts with that code creates it again. Asks
    first; without a terminal, it needs --yes.
    """
    if not yes:
        confirm("remove", f"schedule {name!r}")
    acted(app, lambda admin: admin.remove_schedule(name))
    show_result(f"removed {name}", {"removed": name}, as_json=as_json)


@schedules.command()
@of_words("name")
@json_option
def run(app: Headrace, name: str, as_json: bool) -> None:
    """Send one job of a schedule now, paused or not; prints its id."""
    job = acted(app, lambda admin: admin.run_schedule(name))
    show_result(job.id, {"id": job.id}, as_json=as_json)


def _row(schedule: Schedule) -> tuple[str | int, ...]:
    return (
        schedule.name,
        _when(schedule),
        schedule.task,
        schedule.queue,
        "" if schedule.next_tick is None else moment(schedule.next_tick),
        schedule.fired,
        _state(schedule),
    )


def _when(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"every {period_text(schedule.every)}"
    zone = "" if schedule.timezone == "UTC" else f" {schedule.timezone}"
    return f"{schedule.cron or '?'}{zone}"


def _state(schedule: Schedule) -> str:
    if schedule.problem:
        return f"broken: {schedule.problem}"
    return "paused" if schedule.paused else "ended" if schedule.ended else "on"
