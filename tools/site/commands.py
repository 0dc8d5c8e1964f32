"""The page of the command line, from what the commands say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

PLACE = "reference/commands.md"


def navigation() -> list[dict[str, str]]:
    return [{"Command line": PLACE}]


def pages() -> dict[str, str]:
    from headrace.cli import main

    lines = ["# Command line", "", _help(main), ""]
    for names, command in _all(main, ()):
        lines += _section(names, command)
    return {PLACE: "\n".join(lines)}


def _all(
    group: click.Group, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if command is None or command.hidden:
            continue
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from _all(command, (*names, name))


def _section(names: tuple[str, ...], command: click.Command) -> list[str]:
    path = " ".join(("headrace", *names))
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{'#' * (1 + len(names))} {path}", "", "```text", f"{path} {usage}", "```", ""]
    lines += [_help(command), ""]
    rows = [
        f"| {_names(each)} | {_cell(each.help or '')}{_default(each)}{_variable(each)} |"
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
    ]
    return [*lines, "| option | meaning |", "|---|---|", *rows, ""] if rows else lines


def _help(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "").split("\f")[0]
    # A paragraph that click is told to leave as it is.
    parts = (part.strip("\n") for part in text.split("\n\n"))
    return "\n\n".join(
        f"```text\n{part.removeprefix(chr(8)).strip(chr(10))}\n```"
        if part.startswith("\b")
        else _cell(part)
        for part in parts
    )


def _names(option: click.Option) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = (
        ""
        if option.is_flag or option.count
        else f" {option.make_metavar(click.Context(click.Command('x')))}"
    )
    return (
        ", ".join(f"`{name}`" for name in names[:-1])
        + (", " if names[1:] else "")
        + f"`{names[-1]}{_cell(value)}`"
    )


def _default(option: click.Option) -> str:
    return f" Default: `{option.default}`." if option.show_default else ""


def _variable(option: click.Option) -> str:
    return f" Variable: `{option.envvar}`." if isinstance(option.envvar, str) else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
