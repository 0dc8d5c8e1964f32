"""The options that say which jobs are meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from headrace.admin.dead import DeadConditions

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_WORDS = {
    "queue": "of queue {!r}",
    "state": "in state {!r}",
    "task": "of task {!r}",
    "flow": "of the flow of {}",
    "reason": "with reason {!r}",
    "error": "with {!r} in the error",
    "search": "with {!r} in id, arguments or error",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What the options said about dead jobs."""

    queue: str | None
    reason: str | None
    task: str | None
    error: str | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())

    def __str__(self) -> str:
        words = [described("all dead jobs", **asdict(self))]
        if self.since is not None:
            last = isinstance(self.since, timedelta)
            words.append(f"of the last {self.since}" if last else f"since {self.since}")
        if self.until is not None:
            before = isinstance(self.until, timedelta)
            words.append(f"older than {self.until}" if before else f"until {self.until}")
        return " ".join(words)

    @property
    def conditions(self) -> DeadConditions:
        """What is said besides the queue."""
        return DeadConditions(
            reason=self.reason,
            task=self.task,
            error=self.error,
            since=self.since,
            until=self.until,
        )


def described(what: str, **given: Any) -> str:
    """The conditions in words."""
    words = [_WORDS[name].format(given[name]) for name in _WORDS if given.get(name) is not None]
    return " ".join([what, *words])


def queue_option(command: Command) -> Command:
    found = "Only of this queue, or group of a topic: billing@orders."
    return click.option("-Q", "-q", "--queue", metavar="NAME", help=found)(command)


def job_options(command: Command) -> Command:
    """What jobs are meant, besides the queue."""
    found = "Only with this text in id, arguments or error."
    for option in (
        click.option("--search", metavar="TEXT", help=found),
        click.option("--task", metavar="NAME", help="Only of this task."),
        click.option("--state", metavar="STATE", help="Only in this state: waiting, blocked, …"),
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """Options of the same names as the fields of `Filter`."""
    since = "Only those that died since: 30m, 1h, 2d, or an ISO time."
    until = "Only those that died before, likewise."
    error = "Only with this text in type or text of the last error."
    for option in (
        click.option("--until", metavar="WHEN", callback=_converted, help=until),
        click.option("--since", metavar="WHEN", callback=_converted, help=since),
        click.option("--error", metavar="TEXT", help=error),
        click.option("--task", metavar="NAME", help="Only of this task."),
        click.option("--reason", metavar="R", help="Only with this reason: crash_loop, …"),
        queue_option,
    ):
        command = option(command)
    return command


def parse_since(text: str) -> datetime | timedelta:
    """`90s`, `30m`, `1h`, `2d`, `1w`, or an ISO date or time, local unless it has a zone;
    `ValueError` for what is neither."""
    if ago := _AGO.fullmatch(text):
        return timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    return datetime.fromisoformat(text).astimezone()


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
