"""The terminal view: what it shows, its keys, and what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, Input, Static, TabbedContent, TabPane

from headrace.admin import Admin
from headrace.core.display import harmless
from headrace.errors import HeadraceError
from headrace.top import details
from headrace.top.screens import Confirm, Reading, keys
from headrace.top.snapshot import SnapshotReader, TopSnapshot
from headrace.top.table import Table
from headrace.top.tables import EndedTable, ErrorTable, QueueTable, RunningTable, TopicTable

_EVERY = 2.0
_PATIENCE = 5.0
_NOTHING = TopSnapshot()


class Top(App[None]):
    """Updates every two seconds. If the store does not answer, it says so, keeps what it shows, and
    tries again."""

    CSS_PATH = "top.tcss"
    TITLE = "headrace top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        # As short as it takes for all of them to fit into 80 columns.
        Binding("p", "pause", "Pause"),
        Binding("r", "replay", "Replay"),
        Binding("R", "replay_all", "All dead"),
        Binding("c", "cancel", "Cancel"),
        Binding("1", "tab('queues')", show=False),
        Binding("2", "tab('running')", show=False),
        Binding("3", "tab('errors')", show=False),
        Binding("4", "tab('ended')", show=False),
        Binding("5", "tab('topics')", show=False),
        Binding("/", "search", "Find"),
        Binding("space", "refresh_now", show=False),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, admin: Admin, every: float = _EVERY) -> None:
        super().__init__()
        self._admin = admin
        self._reader = SnapshotReader(admin)
        self._every = every
        self._looking = asyncio.Lock()
        self._searches: dict[str, str] = {}
        self.snapshot = _NOTHING

    def compose(self) -> ComposeResult:
        yield Header(show_clock=True)
        yield Static(id="totals")
        yield Input(placeholder="part of what is shown", id="search")
        with TabbedContent(id="tabs"):
            with TabPane("1 Queues", id="queues"):
                yield QueueTable()
            with TabPane("2 Running", id="running"):
                yield RunningTable()
            with TabPane("3 Errors", id="errors"):
                yield ErrorTable()
            with TabPane("4 Done", id="ended"):
                yield EndedTable()
            with TabPane("5 Topics", id="topics"):
                yield TopicTable()
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
                search, tab = self._searches.get("queues", ""), self._open_tab
                shown = {"ended": tab == "ended", "topics": tab == "topics"}
                self.snapshot = await self._reader.read(search, **shown)
        except TimeoutError:
            self._say(f"the store has not answered for {_PATIENCE:g} s", trouble=True)
            return
        except HeadraceError as error:
            self._say(str(error), trouble=True)
            return
        self._say("")
        self._show()

    def _show(self) -> None:
        width = self._main.size.width - 2
        self._main.query_one("#totals", Static).update(details.totals(self.snapshot, width))
        for table in self._main.query(Table):
            table.show(self.snapshot, self._searches.get(table.TAB, ""))

    def on_resize(self) -> None:
        # Before the first look there is nothing to show.
        if self.snapshot is not _NOTHING:
            self._show()

    def action_refresh_now(self) -> None:
        self.look()

    def action_tab(self, name: str) -> None:
        self.query_one("#tabs", TabbedContent).active = name
        self.query_one(f"#{name}").query_one(Table).focus()

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = bool(event.value)
        tab = self._open_tab
        self._searches[tab] = event.value
        self.action_tab(tab)
        self._show()
        self.look()

    def on_tabbed_content_tab_activated(self) -> None:
        """Each table has a search of its own."""
        search = self._main.query_one("#search", Input)
        search.value = self._searches.get(self._open_tab, "")
        search.display = bool(search.value)
        # Some of it is read only while it is shown.
        self.look()

    def action_keys(self) -> None:
        self.push_screen(keys())

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter: all that is known of the row."""
        self._read(self._open_tab)

    @work
    async def _read(self, tab: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                text = await self._details(tab)
        except (HeadraceError, TimeoutError) as error:
            self._say(str(error) or "the store does not answer", trouble=True)
            return
        if text is not None:
            self.push_screen(Reading("Details", text))

    async def _details(self, tab: str) -> Text | None:
        snapshot = self.snapshot
        if tab == "queues":
            name = self.query_one(QueueTable).chosen
            rows = [row for row in snapshot.queues if row.info.name == name]
            return details.of_queue(rows[0], snapshot.workers) if rows else None
        if tab in ("running", "ended"):
            running = self.query_one(RunningTable).chosen_job
            job = running if tab == "running" else self.query_one(EndedTable).chosen_job
            return await details.of_job(self._admin, *job) if job else None
        if tab == "topics":
            group = self.query_one(TopicTable).chosen_group(snapshot)
            return await details.of_group(self._admin, *group) if group else None
        chosen = self.query_one(ErrorTable).chosen_job
        dead = [info for info in snapshot.errors if (info.queue, info.id) == chosen]
        return details.of_dead(dead[0]) if dead else None

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

    @property
    def _open_tab(self) -> str:
        return self._main.query_one("#tabs", TabbedContent).active

    def _is_open(self, tab: str) -> bool:
        return self._open_tab == tab

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
