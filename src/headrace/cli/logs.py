"""Logs of long-running commands: to stderr, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from headrace.cli.log_colours import colour_of, colours_wanted
from headrace.cli.output import harmless_lines
from headrace.exposition.json_logs import JsonFormatter

Command = TypeVar("Command", bound=Callable[..., Any])

_LEVELS = ("debug", "info", "warning", "error")
_LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class VisibleFormatter(logging.Formatter):
    """Escapes what is not plainly visible, and indents all but the first line of a record: errors
    of jobs can neither control a terminal nor imitate a line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        first, *more = harmless_lines(super().format(record))
        return "\n".join([first, *(f"  {line}" for line in more)])


class ColourFormatter(VisibleFormatter):
    """The same in colours, by level; runs by how they ended."""

    def format(self, record: logging.LogRecord) -> str:
        colour = colour_of(record.levelname, record.name, record.getMessage())
        text = super().format(record)
        return text if colour is None else click.style(text, fg=colour)


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
    """Log to stderr. If the app's module has set up logging, change only what the options say.
    `fields` are on every line of JSON."""
    to_stderr = logging.StreamHandler()
    in_colour = colours_wanted() and sys.stderr.isatty()
    to_stderr.setFormatter((ColourFormatter if in_colour else VisibleFormatter)(_LINE))
    logging.basicConfig(handlers=[to_stderr], level=(level or "info").upper())
    if level is not None:
        logging.getLogger("headrace").setLevel(level.upper())
    if format is not None:
        for handler in logging.getLogger().handlers:
            is_json = format.lower() == "json"
            handler.setFormatter(JsonFormatter(**fields) if is_json else VisibleFormatter(_LINE))


@contextmanager
def without_risks() -> Iterator[None]:
    """For commands that look, or do one thing: the store does not warn of its settings meanwhile.
    Workers do, and `headrace check`."""
    store = logging.getLogger("headrace.store")
    store.addFilter(_is_no_risk)
    try:
        yield
    finally:
        store.removeFilter(_is_no_risk)


def _is_no_risk(record: logging.LogRecord) -> bool:
    return record.levelno != logging.WARNING or record.msg != "Redis at %s: %s"
