"""The terminal view: what it shows, its keys, and a question before each action."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Footer, Header, Input, Static, TabbedContent, TabPane

from headrace.admin import Admin
from headrace.core.display import harmless
from headrace.errors import HeadraceError
from headrace.top.snapshot import SnapshotReader, TopSnapshot
from headrace.top.tables import EndedTable, ErrorTable, QueueTable, RunningTable, Table, rate


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


_EVERY = 2.0
_PATIENCE = 5.0


class Top(App[None]):
    """Updates every two seconds. If the store does not answer, it says so, keeps what it shows, and
    tries again."""

    CSS_PATH = "top.tcss"
    TITLE = "headrace top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause/resume queue"),
        Binding("r", "replay", "Replay"),
        Binding("R", "replay_all", "Replay all dead of queue"),
        Binding("c", "cancel", "Cancel job"),
        Binding("1", "tab('queues')", show=False),
        Binding("2", "tab('running')", show=False),
        Binding("3", "tab('errors')", show=False),
        Binding("4", "tab('ended')", show=False),
        Binding("/", "search", "Search"),
        Binding("space", "refresh_now", "Refresh"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, admin: Admin, every: float = _EVERY) -> None:
        super().__init__()
        self._admin = admin
        self._reader = SnapshotReader(admin)
        self._every = every
        self._looking = asyncio.Lock()
        self.snapshot = TopSnapshot()

    def compose(self) -> ComposeResult:
        yield Header(show_clock=True)
        yield Static(id="totals")
        yield Input(placeholder="part of a queue's name", id="search")
        with TabbedContent(id="tabs"):
            with TabPane("1 Queues", id="queues"):
                yield QueueTable()
            with TabPane("2 Running", id="running"):
                yield RunningTable()
            with TabPane("3 Errors", id="errors"):
                yield ErrorTable()
            with TabPane("4 Done", id="ended"):
                yield EndedTable()
        yield Static(id="trouble")
        yield Footer()

    def on_mount(self) -> None:
        # There is none if the program was stopped before it had begun.
        for queues in self.query(QueueTable):
            queues.focus()
        self.set_interval(self._every, self.look)
        self.look()

    @property
    def _main(self) -> Screen[object]:
        """The screen with the tables, also while a question is on top of it."""
        return self.screen_stack[0]

    @work
    async def look(self) -> None:
        """Read a snapshot and show it, unless that is under way already."""
        if self._looking.locked():
            return
        async with self._looking:
            # When the program ends, the widgets may be gone already.
            with suppress(NoMatches):
                await self._look()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                search = self._main.query_one("#search", Input).value
                ended = self._main.query_one("#tabs", TabbedContent).active == "ended"
                self.snapshot = await self._reader.read(search, ended=ended)
        except TimeoutError:
            self._say(f"the store has not answered for {_PATIENCE:g} s", trouble=True)
            return
        except HeadraceError as error:
            self._say(str(error), trouble=True)
            return
        self._say("")
        self._main.query_one("#totals", Static).update(_totals(self.snapshot))
        for table in self._main.query(Table):
            table.show(self.snapshot)

    def action_refresh_now(self) -> None:
        self.look()

    def action_tab(self, name: str) -> None:
        self.query_one("#tabs", TabbedContent).active = name
        self.query_one(f"#{name}").query_one(Table).focus()
        if name == "ended":
            # Read only while they are shown.
            self.look()

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = bool(event.value)
        self.action_tab("queues")
        self.look()

    def action_pause(self) -> None:
        name = self.query_one(QueueTable).chosen
        info = next((row.info for row in self.snapshot.queues if row.info.name == name), None)
        if info is None or not self._is_open("queues"):
            self._say("choose a queue first: 1")
        elif info.paused:
            self._ask(f"Resume queue {info.name!r}?", lambda: self._admin.resume(info.name))
        else:
            self._ask(f"Pause queue {info.name!r}?", lambda: self._admin.pause(info.name))

    def action_replay(self) -> None:
        job = self.query_one(ErrorTable).chosen_job
        if job is None or not self._is_open("errors"):
            self._say("choose a dead job first: 3")
            return
        queue, id = job
        self._ask(f"Replay job {id!r}?", lambda: self._admin.replay(id, queue))

    def action_replay_all(self) -> None:
        name = self.query_one(QueueTable).chosen
        if name is None or not self._is_open("queues"):
            self._say("choose a queue first: 1")
            return
        question = f"Replay all dead jobs of queue {name!r}?"
        self._ask(question, lambda: self._admin.replay(queue=name))

    def action_cancel(self) -> None:
        job = self.query_one(RunningTable).chosen_job
        if job is None or not self._is_open("running"):
            self._say("choose a running job first: 2")
            return
        queue, id = job
        self._ask(f"Cancel job {id!r} of {queue!r}?", lambda: self._admin.cancel(id, queue))

    def _is_open(self, tab: str) -> bool:
        return self.query_one("#tabs", TabbedContent).active == tab

    def _ask(self, question: str, action: Callable[[], Awaitable[object]]) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self._do(action)

        self.push_screen(Confirm(harmless(question)), answered)

    @work
    async def _do(self, action: Callable[[], Awaitable[object]]) -> None:
        try:
            await action()
        except HeadraceError as error:
            self._say(str(error), trouble=True)
            return
        self.look()

    def _say(self, text: str, *, trouble: bool = False) -> None:
        said = self._main.query_one("#trouble", Static)
        said.update(Text(harmless(text), style="bold red" if trouble else "yellow"))
        said.display = bool(text)


def _totals(snapshot: TopSnapshot) -> Text:
    parts = [
        f"{snapshot.total('waiting'):,} waiting",
        f"{snapshot.total('running'):,} running",
        f"{snapshot.total('dead'):,} dead",
        f"done {rate(snapshot.done) or '0/s'}",
        f"failed {rate(snapshot.failed) or '0/s'}",
        RunningTable.summary(snapshot.workers),
        *([f"{snapshot.hidden:,} more queues: / searches"] if snapshot.hidden else []),
    ]
    return Text("   ".join(parts))
