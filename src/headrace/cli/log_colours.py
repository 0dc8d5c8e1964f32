"""Colours for lines of the log, in a terminal."""

from __future__ import annotations

import os
import re

import click

RUNS = "headrace.runs"
_LINE = re.compile(r"\S+ \S+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) +([\w.]+): (.*)")
_LEVELS = {"DEBUG": "bright_black", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def colours_wanted() -> bool:
    """Whether the user has not turned them off: see https://no-color.org."""
    return not os.environ.get("NO_COLOR")


def colour_of(level: str, logger: str, message: str) -> str | None:
    """The colour of a record; None for what is usual."""
    if logger == RUNS and level == "INFO":
        if message.endswith(": started"):
            return "cyan"
        return "green" if ": done after " in message else "yellow"
    return _LEVELS.get(level)


class LogPainter:
    """Paints the lines of a log, as `cli/logs.py` writes them. Lines that go on are painted as the
    one before."""

    def __init__(self) -> None:
        self._colour: str | None = None

    def painted(self, line: str) -> str:
        match = _LINE.match(line)
        if match is not None:
            self._colour = colour_of(*match.groups())
        elif not line.startswith("  "):
            self._colour = None
        return line if self._colour is None else click.style(line, fg=self._colour)
