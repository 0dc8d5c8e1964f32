"""What comes up over the tables: a question, the keys, the details of a row."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

KEYS = (
    ("1 to 5", "queues, running jobs, errors, done jobs, topics"),
    ("arrows", "choose a row"),
    ("enter", "all that is known of it"),
    ("/", "find rows by a part of their text; empty shows all"),
    ("p", "pause or resume the queue"),
    ("R", "replay all dead jobs of the queue"),
    ("c", "cancel the running job"),
    ("r", "replay the dead job"),
    ("space", "refresh now"),
    ("? escape", "this list; close it"),
    ("q", "quit"),
)


class Confirm(ModalScreen[bool]):
    """A question with yes and no; no has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="question"):
            yield Static(Text(self._question))
            with Horizontal():
                yield Button("No", id="no")
                yield Button("Yes", id="yes", variant="error")

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Reading(ModalScreen[None]):
    """A text to scroll through; any of the keys that opened it closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,question_mark,q", "dismiss", "Close"),
    ]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="reading") as box:
            box.border_title = Text(self._title)
            box.border_subtitle = "esc closes"
            yield Static(self._text)

    def on_mount(self) -> None:
        self.query_one("#reading").focus()


def keys() -> Reading:
    """The keys, each with what it does."""
    text = Text()
    for key, does in KEYS:
        text.append(f"{key:<10}", style="bold")
        text.append(f"{does}\n")
    text.append("\nEvery key that changes something asks first.")
    return Reading("Keys", text)
