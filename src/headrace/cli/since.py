"""`--since`: how long ago, or a moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,6})([smhdw])")


def since_option(help: str) -> Callable[[Command], Command]:
    """`--since`, which becomes a timedelta or an aware datetime."""
    return click.option("--since", metavar="WHEN", callback=_converted, help=help)


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
