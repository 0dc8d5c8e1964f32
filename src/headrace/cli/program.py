"""The group of all commands: imports each when it is used, and shows errors in one line."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.logs import VisibleFormatter
from headrace.cli.output import complain, harmless_lines, print_to_nowhere_if_closed
from headrace.cli.suggestions import no_such_command, no_such_option
from headrace.errors import (
    EventNotFound,
    GroupNotFound,
    HeadraceError,
    JobError,
    QueueNotFound,
    ScheduleNotFound,
    TopicNotFound,
    WorkerNotFound,
)

FAILED = 1
WRONG_USE = 2
_NOT_THERE = (
    JobError,
    EventNotFound,
    GroupNotFound,
    TopicNotFound,
    QueueNotFound,
    WorkerNotFound,
)


class CommandAt(NamedTuple):
    """Where a command is, as `module:attribute`, and what it does: the first sentence of its help.

    A test compares the two.
    """

    place: str
    does: str


class Program(CommandGroup):
    """Imports each command when it is used: `headrace queues` does not pay for the others, and
    `headrace --help` for none."""

    def __init__(self, *args: Any, commands_at: Mapping[str, CommandAt], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._commands_at)

    def command_lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, self._commands_at[name].does) for name in self.list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._commands_at.get(cmd_name)
        if found is None:
            return None
        module, _, attribute = found.place.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name == module:
                return None
            raise
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise no_such_command(args[0], self._commands_at, ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run, and end the process. An error is one line on stderr; only a bug has a traceback."""
        print_to_nowhere_if_closed()
        # Jobs may hold characters that the terminal's encoding lacks.
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        if logging.lastResort is not None:
            # Warnings of commands that set up no logging reach the terminal through this.
            logging.lastResort.setFormatter(VisibleFormatter())
        sys.excepthook = _show_bug
        try:
            code = super().main(
                *args, **{"prog_name": "headrace", **extra, "standalone_mode": False}
            )
        except click.Abort:
            _end("aborted", FAILED)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _end(_usage_text(error), error.exit_code)
        except _NOT_THERE as error:
            _end(str(error), FAILED)
        except ScheduleNotFound as error:
            _end(f"there is no schedule {error.name!r}: see 'headrace schedules'", FAILED)
        except HeadraceError as error:
            _end(str(error), WRONG_USE)
        sys.exit(code if isinstance(code, int) else 0)


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback, escaped."""
    shown = traceback.format_exception(kind, error, trace)
    for line in harmless_lines("".join(shown).rstrip()):
        click.echo(line, err=True)


def _end(text: str, code: int) -> NoReturn:
    complain(text)
    sys.exit(code)


def _usage_text(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption):
        text = no_such_option(error)
    else:
        text = error.format_message()
    text = text.rstrip(".")
    return f"{text} (see '{context.command_path} --help')" if context is not None else text
