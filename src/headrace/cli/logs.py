"""What a long-running command logs, and how: to stderr, for people or for programs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.telemetry.json_logs import JsonFormatter

Command = TypeVar("Command", bound=Callable[..., Any])

_LEVELS = ("debug", "info", "warning", "error")
_LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def log_options(command: Command) -> Command:
    """The options that `log_to_stderr` takes, as `log_level` and `log_format`."""
    for option in (
        click.option(
            "--log-format",
            type=click.Choice(("text", "json"), case_sensitive=False),
            help="Lines for people, or one JSON object per line.  [default: text]",
        ),
        click.option(
            "--log-level",
            type=click.Choice(_LEVELS, case_sensitive=False),
            help="How much to log.  [default: info]",
        ),
    ):
        command = option(command)
    return command


def log_to_stderr(level: str | None, format: str | None, **fields: str) -> None:
    """Log to stderr, unless the app's module has set up logging: then only what was asked for is
    changed. `fields` are on every line of JSON."""
    logging.basicConfig(format=_LINE, level=(level or "info").upper())
    if level is not None:
        logging.getLogger("headrace").setLevel(level.upper())
    if format is not None:
        for handler in logging.getLogger().handlers:
            is_json = format.lower() == "json"
            handler.setFormatter(JsonFormatter(**fields) if is_json else logging.Formatter(_LINE))
