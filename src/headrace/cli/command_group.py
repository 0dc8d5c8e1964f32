"""A group of commands whose help says of each what it does, in a whole sentence."""

from __future__ import annotations

import click

_WHOLE = 1_000
"""Longer than any first sentence."""


class CommandGroup(click.Group):
    """Click cuts what it says of a command at the end of the line; this wraps it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if rows := self.command_lines(ctx):
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def command_lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The name of each command, and what it does."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in found
            if command is not None and not command.hidden
        ]
