"""`headrace schedules`: what runs when; stop, go, and run now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.asking import Noun, asked, confirm, json_option, only, split, yes_option
from headrace.cli.loading import app_options, chosen_app, one_app
from headrace.cli.output import harmless, json_document, moment, table

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.client.schedule import Schedule

Command = TypeVar("Command", bound=Callable[..., Any])

_HEADINGS = ("schedule", "when", "task", "queue", "next", "fired", "state")


@click.group(cls=Noun)
def schedules() -> None:
    """Show the schedules, pause, resume, remove and run them. Without a command: list."""


@schedules.command("list")
@click.argument("app", required=False)
@app_options
@json_option
def list_(
    app: str | None, app_option: str | None, url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Show the schedules, when each fires next, and what is wrong with those that do not."""
    chosen = chosen_app(one_app(app, app_option), url, namespace)
    found = asked(chosen, lambda app: app.admin.schedules())
    if as_json:
        json_document(found)
    elif found:
        table(_HEADINGS, [_row(schedule) for schedule in found])
    else:
        click.echo("no schedules")


def _one_schedule(command: Command) -> Command:
    for option in (
        json_option,
        app_options,
        click.argument("words", nargs=-1, required=True, metavar="[APP] NAME"),
    ):
        command = option(command)
    return command


@schedules.command()
@_one_schedule
def pause(**given: Any) -> None:
    """Have a schedule fire no more, until resume."""
    app, name, as_json = _chosen(**given)
    schedule = asked(app, lambda app: app.schedules.pause(name))
    _tell(f"paused {name}", schedule, as_json)


@schedules.command()
@_one_schedule
def resume(**given: Any) -> None:
    """Undo pause. Ticks that came meanwhile are not made up for."""
    app, name, as_json = _chosen(**given)
    schedule = asked(app, lambda app: app.schedules.resume(name))
    _tell(f"resumed {name}", schedule, as_json)


@schedules.command()
@_one_schedule
@yes_option
def remove(yes: bool, **given: Any) -> None:
    """Forget a schedule; jobs that it has sent stay.

    One that is declared in code is made again by the next worker that starts with that code. Asks
    first; where there is no terminal to ask in, it needs --yes.
    """
    app, name, as_json = _chosen(**given)
    if not yes:
        confirm("remove", f"schedule {name!r}")
    asked(app, lambda app: app.schedules.remove(name))
    _tell(f"removed {name}", {"removed": name}, as_json)


@schedules.command()
@_one_schedule
def run(**given: Any) -> None:
    """Send one job of a schedule now, paused or not; prints its id."""
    app, name, as_json = _chosen(**given)
    job = asked(app, lambda app: app.schedules.run_now(name))
    _tell(job.id, {"id": job.id}, as_json)


def _chosen(
    words: tuple[str, ...],
    app_option: str | None,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> tuple[Headrace, str, bool]:
    app, names = split(words, app_option)
    name = only("schedule", names)
    return chosen_app(app, url, namespace), name, as_json


def _tell(text: str, value: object, as_json: bool) -> None:
    if as_json:
        json_document(value)
    else:
        click.echo(harmless(text))


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
        return f"every {schedule.every:g} s"
    zone = "" if schedule.timezone == "UTC" else f" {schedule.timezone}"
    return f"{schedule.cron or '?'}{zone}"


def _state(schedule: Schedule) -> str:
    if schedule.problem:
        return f"broken: {schedule.problem}"
    return "paused" if schedule.paused else "ended" if schedule.ended else "on"
