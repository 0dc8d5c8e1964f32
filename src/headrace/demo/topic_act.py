"""The act about events: one topic, two groups."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from headrace.demo import shop
from headrace.demo.workers import FRAME, PATIENCE, Show

_EVENTS = 20
_FAILING = _EVENTS // 5


async def two_groups(show: Show) -> None:
    show.stage.act(
        "An event reaches every group",
        f"{_EVENTS} events go to one topic; shipping and billing each get all of them, and what "
        "fails in one is tried again there alone.",
    )
    book = show.workers.home / "book"
    book.touch()
    events = [shop.OrderPaid(order, str(book)) for order in range(_EVENTS)]
    outcome = await shop.paid.publish_many(events)
    lines = await _written(show, book, 2 * _EVENTS)
    show.counts.events += _EVENTS
    show.counts.retries += _FAILING
    shipped, billed, again = (lines[what] for what in ("shipping", "billing", "billing-again"))
    everything = sorted(range(_EVENTS))
    show.stage.check(
        outcome.ok and sorted(shipped) == everything,
        f"shipping handled {len(shipped)} of {_EVENTS} events, each once",
    )
    show.stage.mishap(f"{len(again)} of billing's failed at first")
    show.stage.check(
        sorted(billed + again) == everything and len(again) == _FAILING,
        f"billing handled {len(billed + again)} of {_EVENTS}; shipping saw nothing of its retries",
    )


async def _written(show: Show, book: Path, count: int) -> dict[str, list[int]]:
    """Waits for `count` lines in the book; returns the orders by what was done with them."""
    until = time.monotonic() + PATIENCE
    while len(lines := _lines_of(book)) < count and time.monotonic() < until:
        show.workers.check_alive()
        show.stage.bar(len(lines), count, f"{len(lines):>2}/{count}")
        await asyncio.sleep(FRAME)
    show.stage.keep()
    found: dict[str, list[int]] = {what: [] for what in ("shipping", "billing", "billing-again")}
    for what, order in map(str.split, lines):
        found[what].append(int(order))
    return found


def _lines_of(book: Path) -> list[str]:
    return book.read_text().splitlines()
