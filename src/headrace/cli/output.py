"""What commands print: tables and lines for people, one JSON document for programs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import click
import msgspec

from headrace.core.display import harmless as harmless
from headrace.core.display import length_text, local_text

if TYPE_CHECKING:
    from headrace.client.attempts import AttemptInfo, ReplayInfo

T = TypeVar("T")
Cells: TypeAlias = "Sequence[str | int]"
"""A row of a table."""

_MOST_SHOWN = 4_000
_GAP = "  "
_INDENT = "    "
_NOT_PLAIN = re.compile(r"[^\x00-\x7e]")
_NARROWEST = 20
_MOST_LINES = 4
"""Of one cell in a terminal."""


def print_to_nowhere_if_closed() -> None:
    """Discard what is printed to a stdout or stderr with which this program was not started. What
    is opened next, such as the store's file, must not get its number: C libraries and processes of
    tasks print there whatever Python knows."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def complain(text: str) -> None:
    """Print one line to stderr."""
    click.echo(f"headrace: {harmless(' '.join(text.split()))}", err=True)


def harmless_lines(text: str) -> list[str]:
    """Text of several lines, such as a traceback, each of them harmless."""
    return [harmless(line.expandtabs(4)) for line in text.split("\n")]


def counted(counts: Mapping[str, int]) -> str:
    """Names with how often each was counted, on one line: `KeyError 2, Reject 1`."""
    return ", ".join(f"{harmless(name)} {count:,}" for name, count in counts.items())


def table(headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Print columns as wide as they need to be, numbers to the right. In a terminal, columns that
    it has no room for go to indented lines below the row."""
    cells = [[harmless(str(value)) for value in row] for row in rows]
    columns = list(zip(headings, *cells, strict=True))
    widths = [max(len(value) for value in column) for column in columns]
    numeric = [bool(rows) and isinstance(value, int) for value in (rows[0] if rows else headings)]
    most = max(_NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    places = _places(widths, most)
    for row in [[heading.upper() for heading in headings], *cells]:
        padded = [
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(row, widths, numeric, strict=True)
        ]
        for place in places:
            _show_line(padded[place], most, "" if place.start == 0 else _INDENT)


def _places(widths: Sequence[int], most: int | None) -> list[slice]:
    """Which columns go on each line of a row: as many as fit into `most` characters."""
    if most is None:
        return [slice(0, len(widths))]
    starts, end = [0], widths[0]
    for column, width in enumerate(widths[1:], 1):
        end += len(_GAP) + width
        if end > most:
            starts.append(column)
            end = len(_INDENT) + width
    return list(map(slice, starts, [*starts[1:], len(widths)]))


def _show_line(cells: Sequence[str], most: int | None, indent: str) -> None:
    """Print cells of a row. Only one alone can be longer than the line: it is wrapped between
    words, so that an id stays whole."""
    line = f"{indent}{_GAP.join(cells)}".rstrip()
    if most is None or 0 < len(line) <= most:
        click.echo(line)
    elif line:
        text = line.strip()
        for each in textwrap.wrap(
            text,
            most,
            initial_indent=indent,
            subsequent_indent=indent,
            max_lines=_MOST_LINES,
            placeholder=" …",
            break_long_words=False,
            break_on_hyphens=False,
        ):
            click.echo(each)


def show_table(
    found: Sequence[T],
    headings: Sequence[str],
    row: Callable[[T], Sequence[str | int]],
    *,
    nothing: str,
    as_json: bool,
) -> None:
    """A row for each thing found; the text `nothing` if there is none."""
    if as_json:
        json_document(found)
    elif found:
        table(headings, [row(each) for each in found])
    else:
        click.echo(nothing)


class Shown(Generic[T]):
    """At most `limit` things that a command finds, shown as they come: in JSON, each is printed on
    a line of its own and forgotten; of a table, whose columns depend on all, only the cells are
    kept."""

    def __init__(
        self,
        row: Callable[[T], Cells],
        as_json_value: Callable[[T], Any],
        limit: int,
        *,
        as_json: bool,
    ) -> None:
        self._row = row
        self._as_json_value = as_json_value
        self._limit = limit
        self._as_json = as_json
        self._rows: list[Cells] = []
        self.count = 0

    async def of(self, found: AsyncGenerator[T, None]) -> None:
        """Take what is found, one more than the limit at most."""
        async with aclosing(found) as every:
            async for each in every:
                self.count += 1
                if self.count > self._limit:
                    return
                if self._as_json:
                    text = _json_text(self._as_json_value(each), indent=-1)
                    click.echo(f"{'[' if self.count == 1 else ','}\n{text}", nl=False)
                else:
                    self._rows.append(self._row(each))

    def end(self, show: Callable[[Sequence[Cells]], None]) -> None:
        """End the document, or show the rows as a table; say if there are more."""
        if self._as_json:
            click.echo("\n]" if self.count else "[]")
            return
        show(self._rows)
        if self.count > self._limit:
            click.echo(f"(there are more than {self._limit}: see --limit)", err=True)


def show_result(text: str, value: object, *, as_json: bool) -> None:
    """One line for people, or a value as JSON."""
    if as_json:
        json_document(value)
    else:
        click.echo(harmless(text))


def fitting(line: str) -> str:
    """The line, cut to the terminal's width if it goes to one."""
    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(line) <= width:
        return line
    return line[: width - 1] + "…"


def json_document(value: Any) -> None:
    """Print one JSON document. Times are ISO 8601, bytes base64, and values that JSON lacks are
    their `repr`; ASCII only, so that nothing in it can control a terminal."""
    click.echo(_json_text(value))


def _json_text(value: Any, indent: int = 2) -> str:
    # Laid out as bytes: as plain values it would all be there once more.
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=indent).decode()
    return text if text.isascii() and "\x7f" not in text else _NOT_PLAIN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def moment(time: datetime) -> str:
    """A time in the local time zone."""
    return local_text(time)


def shortened(text: str) -> str:
    """The text, cut to a screen or two."""
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def show_attempts(attempts: Sequence[AttemptInfo], replays: Sequence[ReplayInfo]) -> None:
    """Print the runs of a job, and between them when it was replayed."""
    for number, attempt in enumerate((None, *attempts)):
        if attempt is not None:
            show_attempt(attempt)
        for replay in replays:
            if replay.before == number:
                by = f" by {harmless(replay.by)}" if replay.by else ""
                click.echo(f"\nreplayed: {moment(replay.at)}{by}")


def show_attempt(attempt: AttemptInfo) -> None:
    """Print when and where a run was, and its error."""
    took = (attempt.ended - attempt.started).total_seconds()
    click.echo(
        f"\nattempt {attempt.number}: {moment(attempt.started)}, {length_text(took)}, "
        f"on {harmless(attempt.worker)}"
    )
    for line in harmless_lines(attempt.error or "done"):
        click.echo(f"  {line}")
    if attempt.traceback.strip():
        click.echo()
        for line in harmless_lines(attempt.traceback.rstrip()):
            click.echo(f"  {line}")
