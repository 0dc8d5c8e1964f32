"""Dead jobs by error: counted, replayed and purged together."""

from __future__ import annotations

import asyncio
import html
import re

import pytest

from headrace import Headrace
from headrace.core.job.history import Attempt, History
from tests.admin.burying import bury, envelope
from tests.web.acting import fields_for, listed, post, question
from tests.web.browsing import Person, flash
from tests.web.hostile import SCRIPT, assert_harmless


@pytest.fixture
def store_url() -> str:
    return "memory://"


def failed(kind: str, text: str, line: int) -> History:
    """The history of a job that failed once, at a line of a file."""
    trace = f'Traceback (most recent call last):\n  File "/srv/shop.py", line {line}, in charge\n'
    return History((Attempt(1, 1, 2, "w", kind, text, trace),))


async def test_dead_jobs_that_failed_alike_are_one_row_and_replayed_at_once(app: Headrace) -> None:
    for number in range(3):
        late = failed("TimeoutError", f"bank {number} is away", 7)
        await bury(app, [envelope("charge", number)], queue=f"q-{number}", history=late)
        # Two that died in one millisecond have no order.
        await asyncio.sleep(0.002)
    (other,) = await bury(app, [envelope("charge", 9)], history=failed("TimeoutError", SCRIPT, 8))
    async with Person(app) as person:
        page = await person.page("/dead", by="error")
        assert_harmless(page)
        assert "4 dead jobs" in page
        assert page.count("<tr data-key") == 2
        assert "/srv/shop.py:7 in charge" in page
        assert "bank 2 is away" in page, "the text of the latest"
        fields = fields_for(page, "replay_all")
        assert fields["place"] == "/srv/shop.py:7 in charge"
        link = re.search(r'class="name" href="([^"]*)"', page)
        assert link
        assert len(listed(await person.page(html.unescape(link[1])))) == 3
        asked = await question(person, "replay_all", **fields)
        assert "with the error TimeoutError raised at /srv/shop.py:7 in charge" in asked
        answer = await post(person, "replay_all", **fields)
        assert flash(answer.text) == "3 jobs replayed."
        assert listed(await person.page("/dead")) == [other]
        assert "No dead job fits" in await person.page("/dead", by="error", task="none")


async def test_each_reason_and_error_stands_beside_its_number(app: Headrace) -> None:
    history = failed("TimeoutError", "away", 7)
    await bury(app, [envelope("charge", number) for number in range(3)], history=history)
    async with Person(app) as person:
        page = await person.page("/dead", by="error")
        tallies = re.search(r'<ul class="tallies[^>]*>(.*?)</ul>', page, re.S)
        assert tallies
        items = re.findall(r"<li>(.*?)</li>", tallies[1])
        assert [re.sub(r"<[^>]*>", "", item) for item in items] == [
            "rejected 3", "TimeoutError 3",
        ]  # fmt: skip


async def test_the_latest_dead_jobs_of_all_queues_come_first_and_their_number_is_shown(
    app: Headrace,
) -> None:
    buried = [
        (await bury(app, [envelope("charge", number)], queue=f"q-{number % 7}"))[0]
        for number in range(60)
    ]
    async with Person(app) as person:
        page = await person.page("/dead")
        assert "60 dead jobs" in page
        shown = listed(page)
        assert len(shown) == 50
        assert set(shown) >= set(buried[20:])
