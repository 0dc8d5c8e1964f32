"""`headrace top`, as a person at the keyboard sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from rich.text import Text
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static, TabbedContent

from headrace import Headrace, Retry
from headrace.admin import DeadInfo
from headrace.top import Top
from headrace.top.screens import KEYS, Confirm, Reading
from headrace.top.snapshot import SnapshotReader
from headrace.top.table import Table
from headrace.top.tables import (
    EndedTable,
    ErrorTable,
    QueueTable,
    RunningTable,
    TopicTable,
    age,
    rate,
    sparkline,
)
from tests.faults.crew import LONG, eventually

HOSTILE = "[red]\x1b[2J<b>\u202e"


class Shop:
    """An app with a job that fails, one that holds, and one that is quick."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self.go = asyncio.Event()
        self.held = app.task(name="hold")(self._hold)
        self.failing = app.task(name="fail", queue="mail", retry=Retry(1))(self._fail)

    async def _hold(self, order: str = "") -> None:
        await self.go.wait()

    async def _fail(self, text: str) -> None:
        raise ValueError(text)

    async def bury(self, text: str) -> str:
        job = await self.failing.enqueue(text)
        async for _ in job.watch(poll=0.05):
            pass
        return job.id


@pytest.fixture
def shop() -> Shop:
    """In memory: stores are told apart by one test, for a terminal takes its time."""
    return Shop(Headrace("memory://"))


def cells(table: Table) -> list[list[str]]:
    rows = (table.get_row_at(at) for at in range(table.row_count))
    return [[cell.plain if isinstance(cell, Text) else cell for cell in row] for row in rows]


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the program look again and again, until it shows what is meant."""
    top = pilot.app
    assert isinstance(top, Top)
    ends_at = time.monotonic() + LONG
    while True:
        # A key that is pressed waits for the whole screen, which takes far longer than a look.
        await top.look().wait()
        await pilot.pause()
        if condition():
            return
        shown = [cells(table) for table in top.query(Table)]
        assert time.monotonic() < ends_at, f"never shown; there is {shown}"
        await asyncio.sleep(0.02)


def said(app: App[None], where: str) -> str:
    return str(app.query_one(where, Static).render())


async def test_queues_workers_and_errors_are_live(app: Headrace) -> None:
    shop = Shop(app)
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(140, 40)) as pilot:
        held = await shop.held.enqueue()
        await shop.bury(HOSTILE)
        queues, running, errors = (
            top.query_one(kind) for kind in (QueueTable, RunningTable, ErrorTable)
        )
        await until(pilot, lambda: errors.row_count == 1 and running.row_count == 1)
        await until(pilot, lambda: [row[0] for row in cells(queues)] == ["default", "mail"])
        await until(pilot, lambda: (cells(queues)[0][3], cells(queues)[1][6]) == ("1", "1"))

        def is_seen_running() -> bool:
            row = cells(running)[0]
            return (row[0], row[2], row[5]) == ("hold", "default", held.id)

        await until(pilot, is_seen_running)
        assert "[red]\\x1b[2J<b>\\u202e" in cells(errors)[0][2]
        assert "1 worker 1/" in said(top, "#totals")
        shop.go.set()
        await until(pilot, lambda: cells(queues)[0][3] == "")


async def test_space_looks_at_once(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test() as pilot:
        await until(pilot, lambda: top.query_one(QueueTable).row_count == 2)
        before = top.snapshot
        await pilot.press("space")
        await eventually("another look", lambda: top.snapshot is not before)


async def test_a_queue_is_paused_and_resumed_after_a_question(shop: Shop) -> None:
    top = Top(shop.app.admin.by("ann@here"), every=60)
    async with shop.app, top.run_test(size=(140, 40)) as pilot:
        await shop.held.enqueue()
        queues = top.query_one(QueueTable)
        await until(pilot, lambda: queues.row_count == 2)
        await pilot.press("p")
        await pilot.pause()
        assert isinstance(top.screen, Confirm)
        await pilot.press("n")
        assert not (await shop.app.admin.queue("default")).paused
        await pilot.press("p", "y")
        await until(pilot, lambda: cells(queues)[0][1] == "paused")
        assert (await shop.app.admin.queue("default")).paused
        await pilot.press("p", "y")
        await until(pilot, lambda: cells(queues)[0][1] == "")
        done = [(action.actor, action.verb) for action in await shop.app.admin.actions()]
        assert done == [("ann@here", "resume"), ("ann@here", "pause")]


async def test_dead_jobs_are_replayed_one_or_all_of_a_queue(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test(size=(140, 40)) as pilot:
        async with shop.app.worker():
            ids = [await shop.bury("one"), await shop.bury("two"), await shop.bury("three")]
        errors = top.query_one(ErrorTable)
        await until(pilot, lambda: errors.row_count == 3)
        await pilot.press("3", "r", "y")
        await until(pilot, lambda: errors.row_count == 2)
        left: list[DeadInfo] = await shop.app.admin.dead("mail")
        assert {info.id for info in left} < set(ids)
        await pilot.press("1", "down", "R", "y")
        await until(pilot, lambda: errors.row_count == 0)
        assert (await shop.app.admin.queue("mail")).waiting == 3


async def test_a_running_job_is_cancelled(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(140, 40)) as pilot:
        job = await shop.held.enqueue()
        running = top.query_one(RunningTable)
        await until(pilot, lambda: running.chosen_job == ("default", job.id))
        await pilot.press("2", "c", "y")
        await until(pilot, lambda: running.chosen_job is None)
        assert await job.status() == "cancelled"


@dataclass
class Paid:
    order: str


async def test_an_event_that_two_groups_handle_is_cancelled_in_the_one_that_is_chosen() -> None:
    app = Headrace("memory://")
    orders, go = app.topic("orders", Paid), asyncio.Event()
    ended: list[str] = []
    for name in ("billing", "ledger"):

        @orders.subscribe(name)
        async def handle(event: Paid, name: str = name) -> None:
            try:
                await go.wait()
            finally:
                ended.append(name)

    top = Top(app.admin, every=60)
    async with app, app.worker(), top.run_test(size=(140, 40)) as pilot:
        id = await orders.publish(Paid("o-1"))
        running = top.query_one(RunningTable)
        await until(pilot, lambda: [row[5] for row in cells(running)] == [id, id])
        await pilot.press("2")
        queue = running.chosen_job[0] if running.chosen_job else ""
        await pilot.press("c", "y")
        await until(pilot, lambda: [row[2] for row in cells(running)] not in ([], [queue]))
        await until(pilot, lambda: running.row_count == 1)
        assert ended == [queue.partition("@")[0]]
        go.set()


async def test_an_action_that_takes_longer_than_a_look_is_done_to_its_end(shop: Shop) -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        await go.wait()
        done.set()

    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test() as pilot:
        await until(pilot, lambda: top.query_one(QueueTable).row_count == 2)
        top._do(slow)
        await shop.held.enqueue()
        await until(pilot, lambda: cells(top.query_one(QueueTable))[0][2] == "1")
        go.set()
        await done.wait()
        await pilot.pause()


async def test_it_goes_on_looking_while_a_question_is_asked(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test() as pilot:
        queues = top.query_one(QueueTable)
        await until(pilot, lambda: queues.row_count == 2)
        await pilot.press("p")
        await pilot.pause()
        await shop.held.enqueue()
        top.look()
        await pilot.pause(0.1)
        await pilot.press("n")
        await until(pilot, lambda: cells(queues)[0][2] == "1")


async def test_a_queue_that_a_search_brings_back_has_no_false_rate(shop: Shop) -> None:
    async with shop.app:
        async with shop.app.worker():
            shop.go.set()
            await (await shop.held.enqueue()).result(timeout=30)
        reader = SnapshotReader(shop.app.admin)
        await reader.read("mail")
        assert [row.done for row in (await reader.read()).queues] == [0, 0]


async def test_a_key_without_anything_chosen_says_what_to_do(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test() as pilot:
        await until(pilot, lambda: top.query_one(QueueTable).row_count == 2)
        for key, hint in (("r", "dead job first: 3"), ("c", "running job first: 2")):
            # A look at the store that was under way may take the place of the hint: once more then.
            for _ in range(100):
                await pilot.press(key)
                await pilot.pause()
                if hint in said(top, "#trouble"):
                    break
            assert hint in said(top, "#trouble")


async def test_queues_are_searched_by_name(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test() as pilot:
        queues = top.query_one(QueueTable)
        await until(pilot, lambda: queues.row_count == 2)
        await pilot.press("slash", *"mai", "enter")
        await until(pilot, lambda: [row[0] for row in cells(queues)] == ["mail"])
        assert top.query_one(Input).value == "mai"


async def test_running_jobs_and_errors_are_searched_where_they_are(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test() as pilot:
        await shop.held.enqueue()
        await shop.bury("no route")
        await shop.bury("no card")
        running, errors = top.query_one(RunningTable), top.query_one(ErrorTable)
        await until(pilot, lambda: errors.row_count == 2 and cells(running)[0][0] == "hold")
        await pilot.press("2", "slash", *"nobody", "enter")
        await until(pilot, lambda: running.row_count == 0)
        assert top.query_one("#tabs", TabbedContent).active == "running"
        await pilot.press("3", "slash", *"card", "enter")
        await until(pilot, lambda: errors.row_count == 1)
        assert "no card" in cells(errors)[0][2]
        # Each table has its own.
        assert top.query_one(QueueTable).row_count == 2
        shop.go.set()


async def test_done_jobs_are_shown_in_a_tab_of_their_own(app: Headrace) -> None:
    shop = Shop(app)
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(140, 40)) as pilot:
        held = await shop.held.enqueue("o-17")
        shop.go.set()
        await held.result(timeout=20)
        await pilot.press("4")
        ended = top.query_one(EndedTable)
        await until(pilot, lambda: ended.row_count == 1)
        assert cells(ended)[0][2:7] == ["1", "hold", "{'order': 'o-17'}", "default", held.id]
        await pilot.press("enter")
        await until(pilot, lambda: held.id in read(top))
        facts = {line.partition(" ")[0] for line in read(top).splitlines()}
        assert facts >= {"sent", "ended", "waited", "took", "result"}
        await pilot.press("escape")
        await pilot.press("1")
        await until(pilot, lambda: top.snapshot.ended == ())


async def test_the_groups_of_topics_are_shown() -> None:
    app = Headrace("memory://")
    orders = app.topic("orders", Paid)

    @orders.subscribe("billing", retry=Retry(1))
    async def bill(event: Paid) -> None:
        raise ValueError("no card")

    top = Top(app.admin, every=60)
    async with app, app.worker(), top.run_test() as pilot:
        await orders.publish(Paid("o-1"))
        topics = top.query_one(TopicTable)
        await pilot.press("5")
        await until(pilot, lambda: [row[6] for row in cells(topics)] == ["1"])
        assert top.snapshot.total("dead") == 1
        assert [info.queue for info in top.snapshot.errors] == ["billing@orders"]
        assert cells(topics)[0][:2] == ["orders", "billing"]
        await pilot.press("enter")
        await until(pilot, lambda: "billing" in read(top))
        await pilot.press("escape")


async def test_enter_on_a_group_names_its_stopped_keys() -> None:
    app = Headrace("memory://")
    orders = app.topic("orders", Paid, key=lambda paid: paid.order)

    @orders.subscribe("billing", retry=Retry(1), ordered=True)
    async def bill(event: Paid) -> None:
        raise ValueError("no card")

    top = Top(app.admin, every=60)
    async with app, app.worker(), top.run_test(size=(140, 40)) as pilot:
        dead = await orders.publish(Paid("o-1"))
        await orders.publish(Paid("o-1"))
        topics = top.query_one(TopicTable)
        await pilot.press("5")
        await until(pilot, lambda: [row[8] for row in cells(topics)] == ["1 key"])
        await until(pilot, lambda: [row[5] for row in cells(topics)] == ["1"])
        await pilot.press("enter")
        await until(pilot, lambda: f"key 'o-1' by event {dead}" in read(top))
        assert "1 event behind it" in read(top)
        await pilot.press("escape")


async def test_at_80_columns_no_column_is_cut_through(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(80, 24)) as pilot:
        await shop.bury("no route to " + 12 * "the host ")
        await shop.held.enqueue()
        errors = top.query_one(ErrorTable)
        await until(pilot, lambda: errors.row_count == 1)
        await pilot.press("3")
        await until(pilot, lambda: any("ValueError: no route" in line for line in screen_of(top)))
        screen = screen_of(top)
        (row,) = [line.rstrip() for line in screen if "ValueError: no route" in line]
        assert "… " in row
        assert row.endswith("retries_exhausted")
        (heading,) = [line.rstrip() for line in screen if " died " in line and "reason" in line]
        assert heading.endswith("reason")
        assert not any("▍" in line for line in screen)
        await pilot.resize_terminal(300, 24)
        await until(pilot, lambda: any(12 * "the host " in line for line in screen_of(top)))
        shop.go.set()


async def test_enter_shows_all_that_is_known_of_a_row(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(80, 24)) as pilot:
        held = await shop.held.enqueue()
        dead = await shop.bury("no route")
        errors, running = top.query_one(ErrorTable), top.query_one(RunningTable)
        await until(pilot, lambda: errors.row_count == 1 and running.chosen_job is not None)
        for tab, texts in (
            ("3", [dead, "ValueError: no route", "Traceback", "retries_exhausted"]),
            ("2", [held.id, "It is running on worker"]),
            ("1", ["default", "workers"]),
        ):
            await pilot.press(tab, "enter")
            await until(pilot, partial(_reads, top, texts))
            await pilot.press("escape")
            await pilot.pause()
        shop.go.set()


async def test_a_question_mark_lists_the_keys(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: all(does in read(top) for _, does in KEYS))
        await pilot.press("question_mark")
        await pilot.pause()
        assert not isinstance(top.screen, Reading)


def _reads(top: Top, texts: list[str]) -> bool:
    return all(text in read(top) for text in texts)


def read(top: Top) -> str:
    """The text that is open over the tables; empty if there is none."""
    if not isinstance(top.screen, Reading):
        return ""
    return "".join(str(part.render()) for part in top.screen.query(Static))


def screen_of(top: Top) -> list[str]:
    """The lines of the terminal."""
    strips = top.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


async def test_all_that_matters_fits_into_80_by_24(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, shop.app.worker(), top.run_test(size=(80, 24)) as pilot:
        await shop.held.enqueue()
        await shop.bury("no route")
        errors = top.query_one(ErrorTable)
        await until(pilot, lambda: errors.row_count == 1)
        await until(pilot, lambda: "1 worker 1/100 busy" in said(top, "#totals"))
        footer = screen_of(top)[-1]
        for label in ("Pause", "Replay", "All dead", "Cancel", "Find", "Keys", "Quit"):
            assert label in footer
        (totals,) = [line for line in screen_of(top) if " waiting " in line and "/s done" in line]
        assert "1 worker 1/100 busy" in totals
        await pilot.press("3")
        await pilot.pause()
        assert any("ValueError: no route" in line for line in screen_of(top))
        await pilot.press("2")
        await pilot.pause()
        assert any("hold" in line and "default" in line for line in screen_of(top))
        shop.go.set()


async def test_it_fits_into_small_and_large_terminals(shop: Shop) -> None:
    top = Top(shop.app.admin, every=60)
    async with shop.app, top.run_test(size=(40, 12)) as pilot:
        queues = top.query_one(QueueTable)
        await until(pilot, lambda: queues.row_count == 2)
        for size in ((200, 60), (40, 12), (20, 6)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert queues.size.width <= size[0]
        assert queues.row_count == 2


async def test_a_store_that_is_away_is_reported_and_looked_for_again() -> None:
    # Nothing listens there.
    app = Headrace("redis://127.0.0.1:1/0")
    top = Top(app.admin, every=60)
    async with top.run_test() as pilot:
        for _ in range(100):
            await pilot.pause(0.05)
            if said(top, "#trouble"):
                break
        assert "127.0.0.1:1" in said(top, "#trouble")
        assert top.is_running


async def test_rates_are_what_was_counted_between_two_looks(shop: Shop) -> None:
    async with shop.app:
        reader = SnapshotReader(shop.app.admin)
        assert (await reader.read()).done == 0
        async with shop.app.worker():
            shop.go.set()
            await (await shop.held.enqueue()).result(timeout=30)
        after = await reader.read()
        assert after.done > 0
        assert sum(after.queues[0].history) == 1


def test_numbers_take_few_characters() -> None:
    assert [age(seconds) for seconds in (None, 4.2, 61, 7300, 200_000)] == [
        "", "4s", "1m", "2h", "2d",
    ]  # fmt: skip
    assert [rate(each) for each in (0, 0.25, 1234.5)] == ["", "0.2/s", "1,234/s"]
    assert sparkline([0, 2, 7, 14]) == " ▂▅█"
    assert sparkline([]) == ""
