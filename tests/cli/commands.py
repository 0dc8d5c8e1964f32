"""The commands that there are, for tests that go through all of them."""

from __future__ import annotations

from collections.abc import Iterator

import click


def names_of_commands(command: click.Command, path: str = "") -> Iterator[str]:
    """Each with those of the groups that it is in, such as `dead list`."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (found := command.get_command(context, name)) is not None:
            yield from names_of_commands(found, f"{path} {name}".strip())
