"""Options that choose jobs, under the names of the fields of `JobFilter`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from headrace.cli.app_command import json_option, of_words, secrets_option
from headrace.core.job.state import Reason

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_REASONS = [str(reason) for reason in Reason]
_AGO = re.compile(r"([0-9]{1,6})([smhdw])")


def queue_option(command: Command) -> Command:
    found = "Only jobs of this queue, or events of a group: billing@orders."
    return click.option("-Q", "-q", "--queue", metavar="NAME", help=found)(command)


def of_job(command: Callable[..., None]) -> Callable[..., None]:
    """A command about one job: it is called with `app`, `id`, `queue` and `as_json`."""
    for option in (json_option, secrets_option, queue_option, of_words("id")):
        command = option(command)
    return command


def job_options(command: Command) -> Command:
    """For jobs that have not ended, besides the queue."""
    for option in (
        _time_options("were sent"),
        _search_option,
        click.option("--task", metavar="NAME", help="Only jobs of this task."),
        _tag_option,
        click.option("--flow", metavar="ID", help="Only jobs of the flow that ends with this job."),
        click.option(
            "--state", metavar="STATE", help="Only jobs in this state: waiting, blocked, done, …"
        ),
    ):
        command = option(command)
    return command


def dead_options(command: Command) -> Command:
    """For dead jobs."""
    error = "Only jobs with this text in their last error."
    place = "raised there, as 'headrace dead groups' says it"
    reason = f"Only jobs with this reason: {', '.join(_REASONS)}."
    for option in (
        _time_options("died"),
        _search_option,
        click.option("--place", metavar="PLACE", help=f"Only jobs whose last error was {place}."),
        click.option("--error-type", metavar="TYPE", help="Only jobs with this type of error."),
        click.option("--error", metavar="TEXT", help=error),
        click.option("--task", metavar="NAME", help="Only jobs of this task."),
        _tag_option,
        click.option("--reason", type=click.Choice(_REASONS), metavar="R", help=reason),
        queue_option,
    ):
        command = option(command)
    return command


def _tag_option(command: Command) -> Command:
    return click.option("--tag", metavar="TAG", help="Only jobs with this tag.")(command)


def _search_option(command: Command) -> Command:
    found = "Only jobs with this text in id, arguments or errors."
    return click.option("--search", metavar="TEXT", help=found)(command)


def _time_options(verb: str) -> Callable[[Command], Command]:
    """The options --since and --until; `verb` says what happened then."""
    since = f"Only jobs that {verb} since then: 30m, 1h, 2d, or an ISO time."
    until = f"Only jobs that {verb} before then, written the same way."

    def with_times(command: Command) -> Command:
        for name, text in (("--until", until), ("--since", since)):
            command = click.option(name, metavar="WHEN", callback=_converted, help=text)(command)
        return command

    return with_times


def parse_since(text: str) -> datetime | timedelta:
    """`90s`, `30m`, `1h`, `2d`, `1w`, or an ISO date or time, local unless it has a zone;
    `ValueError` for what is neither."""
    if ago := _AGO.fullmatch(text):
        return timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    return read_time(text)


def read_time(text: str) -> datetime:
    """An ISO date or time, local unless it has a zone, or a time as these commands print it;
    `ValueError` for what is neither."""
    plain, _, zone = text.rpartition(" ")
    if zone == "UTC":
        return datetime.fromisoformat(f"{plain}+00:00").astimezone()
    moment = datetime.fromisoformat(plain if zone in time.tzname else text)
    return moment.astimezone()


def parse_edits(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    """`name=value` of several options, each value in JSON."""
    edits: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not name=value", context, parameter)
        try:
            edits[name] = json.loads(value)
        except ValueError:
            raise click.BadParameter(
                f"the value of {name!r} is not JSON: {value} (a text needs quotes: "
                f"'{name}=\"{value}\"')",
                context,
                parameter,
            ) from None
    return edits


def _converted(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | timedelta | None:
    try:
        return None if value is None else parse_since(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is not 30m, 1h, 2d or an ISO time", context, parameter
        ) from None
