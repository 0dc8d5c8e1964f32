"""Showing things step by step: bars and colours in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass, field

import click

# Longer lines are harder to read, whatever room there is.
_WIDEST = 79
_BAR = 32
_NOTE = 14
_MARGIN = "  "
_INDENT = " " * 5
_CLEAR_LINE = "\r\x1b[K"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True)
class Look:
    """What the place that is written to can show."""

    live: bool = False
    """A line may be drawn again in place."""
    colour: bool = False
    symbols: bool = True
    """It can show more than ASCII."""
    width: int = 80

    @classmethod
    def of_stdout(cls) -> Look:
        live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        return cls(
            live=live,
            colour=live and not os.environ.get("NO_COLOR"),
            symbols="utf" in (sys.stdout.encoding or "").lower(),
            # The last column stays empty: some terminals wrap as soon as it is written to.
            width=min(shutil.get_terminal_size().columns - 1, _WIDEST),
        )


@dataclass
class Stage:
    """Shows acts, one after the other, and keeps what went wrong in `failures`.

    Where nothing can be drawn in place each thing shown is one line, whatever its length, and bars
    are left out."""

    look: Look
    failures: list[str] = field(default_factory=list)
    _acts: int = 0
    _drawn: str = ""

    def __enter__(self) -> Stage:
        self._raw(_HIDE_CURSOR)
        return self

    def __exit__(self, *_: object) -> None:
        self._raw(self._wiped() + _SHOW_CURSOR)

    def heading(self, title: str, detail: str) -> None:
        if self.look.live:
            self._line("")
            self._line(_MARGIN + self._styled(title, bold=True) + "  " + self._dim(detail))
        else:
            self._line(f"{title}: {detail}")

    def act(self, title: str, sentence: str) -> None:
        """Begin the next act; the sentence says what is being shown."""
        self._acts += 1
        if not self.look.live:
            self._line(f"{self._acts}. {title}: {sentence}")
            return
        self._line("")
        number = self._styled(f"{self._acts}", "cyan", bold=True)
        self._line(f"{_MARGIN}{number}  {self._styled(title, bold=True)}")
        for line in self._wrapped(sentence, 0):
            self._line(_INDENT + self._dim(line))

    def fact(self, text: str) -> None:
        """Something that happened."""
        self._marked("·", "-", text, "cyan")

    def mishap(self, text: str) -> None:
        """Something that went wrong, as it was meant to."""
        self._marked("!", "!", text, "yellow")

    def check(self, holds: bool, text: str) -> None:
        """Something that must be true; if it is not, it is one of the `failures`."""
        if holds:
            self._marked("✓", "ok", text, "green")
        else:
            self.failures.append(f"act {self._acts}: {text}" if self._acts else text)
            self._marked("✗", "FAILED", text, "red", loud=True)

    def bar(self, done: float, total: float, note: str) -> None:
        """How far something is, drawn over the bar before. Whatever is shown next replaces it,
        unless `keep` is called."""
        if not self.look.live:
            return
        length = max(min(_BAR, self._room(2 + _NOTE)), 1)
        filled = round(length * min(done / total, 1.0)) if total else length
        full, rest = self._bar_marks()
        drawn = self._styled(full * filled, "cyan") + self._dim(rest * (length - filled))
        # Cut, for a line that wraps could not be drawn over.
        line = f"{_INDENT}{drawn}  {note[: self._room(2 + length)]}"
        # An unchanged line is not drawn again, so nothing flickers.
        if line != self._drawn:
            self._raw(f"{_CLEAR_LINE}{line}")
            self._drawn = line

    def keep(self) -> None:
        """Let the bar stand as it is."""
        if self._drawn:
            self._raw("\n")
            self._drawn = ""

    def gap(self) -> None:
        if self.look.live:
            self._line("")

    def remark(self, text: str, *, colour: str | None = None, bold: bool = False) -> None:
        """Something outside of any act."""
        margin = _MARGIN if self.look.live else ""
        for line in self._wrapped(text, 0):
            self._line(margin + self._styled(line, colour, bold=bold))

    def table(self, rows: dict[str, str]) -> None:
        """Names and texts in two columns."""
        column = max(map(len, rows)) + 2
        margin = _INDENT if self.look.live else _MARGIN
        for name, text in rows.items():
            first, *more = self._wrapped(text, column)
            self._line(margin + self._dim(name.ljust(column)) + first)
            for line in more:
                self._line(margin + " " * column + line)

    def _marked(self, symbol: str, word: str, text: str, colour: str, loud: bool = False) -> None:
        drawn = self.look.live and self.look.symbols
        mark = symbol if drawn else word
        margin = _INDENT if self.look.live else _INDENT[2:]
        first, *more = self._wrapped(text, len(mark) + 1)
        shown = colour if loud else None
        self._line(f"{margin}{self._styled(mark, colour)} {self._styled(first, shown, bold=loud)}")
        for line in more:
            self._line(margin + " " * (len(mark) + 1) + self._styled(line, shown, bold=loud))

    def _bar_marks(self) -> tuple[str, str]:
        if not self.look.symbols:
            return "#", "."
        return "━", "━" if self.look.colour else "┄"

    def _wrapped(self, text: str, taken: int) -> list[str]:
        """The text in lines that fit; a single one where nothing is drawn."""
        if not self.look.live:
            return [" ".join(text.split())]
        return textwrap.wrap(text, max(self._room(taken), 20)) or [""]

    def _room(self, taken: int) -> int:
        """The columns that are left of a line of an act."""
        return max(self.look.width - len(_INDENT) - taken, 0)

    def _dim(self, text: str) -> str:
        return self._styled(text, dim=True)

    def _styled(
        self, text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False
    ) -> str:
        if not self.look.colour or not text:
            return text
        # None where False would be written out as a command of its own.
        return click.style(text, fg=colour, bold=bold or None, dim=dim or None)

    def _line(self, text: str) -> None:
        self._raw(self._wiped())
        self._write(text + "\n")

    def _wiped(self) -> str:
        drawn, self._drawn = self._drawn, ""
        return _CLEAR_LINE if drawn else ""

    def _raw(self, text: str) -> None:
        """Write control characters, where there is something to control."""
        if self.look.live and text:
            self._write(text)

    def _write(self, text: str) -> None:
        if not self.look.symbols:
            text = text.encode("ascii", "replace").decode()
        # Colours were decided on above; left to itself, click would decide again.
        click.echo(text, nl=False, color=True)
