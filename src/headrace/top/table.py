"""A table of the terminal view, which fits into the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text
from textual.widgets import DataTable

from headrace.top.snapshot import TopSnapshot


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row, and a key that stays the same from one snapshot to the next."""

    key: str
    cells: Sequence[str | Text]

    def has(self, text: str) -> bool:
        return any(text in str(cell).casefold() for cell in self.cells)


class Table(DataTable[str | Text]):
    """A table that keeps the cursor on its row when rows come and go."""

    TAB = ""
    HEADINGS: tuple[str, ...] = ()
    ELASTIC = ""
    """The heading of the column that takes the room that others leave, so that none of these is cut
    through: they are shown whole, or begin beyond the right edge."""
    LEAST = 12
    """What the elastic column has at least, if its texts are longer."""

    _shown: Sequence[TableRow] = ()

    def on_mount(self) -> None:
        self.cursor_type = "row"
        self.zebra_stripes = True
        for heading in self.HEADINGS:
            self.add_column(heading, key=heading)

    @property
    def chosen(self) -> str | None:
        """The key of the row at the cursor."""
        if not self.row_count:
            return None
        key = self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value
        return key or None

    def show(self, snapshot: TopSnapshot, search: str = "") -> None:
        """Show the rows that have `search` in one of their cells, ignoring case."""
        self._shown = [row for row in self.rows_of(snapshot) if row.has(search.casefold())]
        self._fill()

    def on_resize(self) -> None:
        if self._shown:
            self._fill()

    def _fill(self) -> None:
        chosen, top = self.chosen, self.scroll_offset.y
        width, elastic = self._elastic_width(), self.HEADINGS.index(self.ELASTIC)
        self.clear()
        column = self.ordered_columns[elastic]
        column.auto_width, column.width = False, width
        for row in self._shown:
            cells = list(row.cells)
            cells[elastic] = _cut(cells[elastic], width)
            self.add_row(*cells, key=row.key)
        places = {row.key: at for at, row in enumerate(self._shown)}
        if chosen in places:
            self.move_cursor(row=places[chosen], scroll=False)
        self.scroll_to(y=top, animate=False)

    def _elastic_width(self) -> int:
        """So wide that the last column for which there is room ends at the edge."""
        natural = [
            max([cell_len(heading), *(_width(row.cells[at]) for row in self._shown)])
            for at, heading in enumerate(self.HEADINGS)
        ]
        elastic = self.HEADINGS.index(self.ELASTIC)
        room = self.size.width
        if len(self._shown) >= self.size.height:
            room -= self.scrollbar_size_vertical
        least = [*natural]
        least[elastic] = min(natural[elastic], self.LEAST)
        ends = list(accumulate(width + 2 * self.cell_padding for width in least))
        fitting = [end for end in ends if end <= room]
        if len(fitting) <= elastic:
            return natural[elastic] if not room else least[elastic]
        spare = least[elastic] + room - fitting[-1]
        return min(natural[elastic], spare) if len(fitting) == len(ends) else spare

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        """The rows for a snapshot. Each table has its own."""
        return ()


def _width(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)


def _cut(cell: str | Text, width: int) -> Text:
    """The text; if it is longer than that, its beginning and an ellipsis."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.truncate(width, overflow="ellipsis")
    return text
