"""The options that say which dead jobs are meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,6})([smhdw])")


@dataclass(frozen=True, slots=True)
class Filter:
    """What the options said."""

    queue: str | None
    reason: str | None
    task: str | None
    since: datetime | timedelta | None

    def __bool__(self) -> bool:
        return (self.queue, self.reason, self.task, self.since) != (None,) * 4

    def __str__(self) -> str:
        words = ["all dead jobs"]
        if self.queue is not None:
            words.append(f"of queue {self.queue!r}")
        if self.task is not None:
            words.append(f"of task {self.task!r}")
        if self.reason is not None:
            words.append(f"with reason {self.reason!r}")
        if self.since is not None:
            last = isinstance(self.since, timedelta)
            words.append(f"of the last {self.since}" if last else f"since {self.since}")
        return " ".join(words)


def queue_option(command: Command) -> Command:
    return click.option("-Q", "--queue", metavar="NAME", help="Only of this queue.")(command)


def filter_options(command: Command) -> Command:
    """Options of the same names as the fields of `Filter`."""
    since = "Only those that died since: 30m, 1h, 2d, or an ISO time."
    for option in (
        click.option("--since", metavar="WHEN", callback=_converted, help=since),
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


def _converted(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | timedelta | None:
    try:
        return None if value is None else parse_since(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is not 30m, 1h, 2d or an ISO time", context, parameter
        ) from None
