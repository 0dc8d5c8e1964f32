"""What a hook hides is on no page, in no file, and in no answer to an action."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from urllib.parse import unquote

import pytest

from headrace import Headrace
from tests.vault import CARD, Vault, hide, leaks
from tests.web.browsing import Person

_LINK = re.compile(r'href="(/[^"]*)"')
_MOST = 300


async def every_page(person: Person, ids: dict[str, str]) -> AsyncIterator[tuple[str, str]]:
    """All pages that can be come by through links, and those of each job, with their addresses."""
    left = ["/", "/actions", "/find?id=x", "/workers"]
    for id in ids.values():
        left += [f"/job?id={id}", f"/find?id={id}", f"/dead_job?id={id}"]
        left += [f"/raw?id={id}&part={part}" for part in ("arguments", "result", "log")]
    left += [f"/jobs?state={state}" for state in ("dead", "blocked", "scheduled", "waiting")]
    seen = set(left)
    while left:
        path = left.pop()
        text = (await person.get(path)).text
        yield path, unquote(html.unescape(text))
        links = [html.unescape(link) for link in _LINK.findall(text)]
        fresh = [
            each for each in dict.fromkeys(links) if each not in seen and "/static" not in each
        ]
        seen.update(fresh)
        left += fresh
        assert len(seen) < _MOST


async def test_what_is_hidden_is_on_no_page(quick: Headrace) -> None:
    async with quick as app:
        ids = await Vault(app).fill()
        async with Person(app, redact=hide) as person:
            pages = {path: leaks(text) async for path, text in every_page(person, ids)}
        assert len(pages) > 50
        assert {path: found for path, found in pages.items() if found} == {}
        async with Person(app) as person:
            plain = [path async for path, text in every_page(person, ids) if leaks(text)]
        assert len(plain) > 20, "the test would prove nothing"


async def test_what_the_app_hides_needs_no_word_to_the_dashboard(quick: Headrace) -> None:
    quick.redact = hide
    async with quick as app, Person(app) as person:
        job = await Vault(app).ask.enqueue(CARD)
        page = await person.page("/job", id=job.id)
        assert not leaks(page)
        assert "***" in page
        assert 'placeholder="in id or error"' in await person.page("/jobs")


async def test_a_key_that_is_hidden_can_be_freed(quick: Headrace) -> None:
    async with quick as app:
        await Vault(app).fill()
        async with Person(app, redact=hide) as person:
            page = await person.page("/group", topic="orders", group="ledger")
            shown = re.search(r'name="key" value="(#[0-9a-f]{10})"', page)
            assert shown
            await person.do(
                "free_key", back="/topics", topic="orders", group="ledger", key=shown[1]
            )
        assert await app.admin.stopped_keys("orders", "ledger") == []


@pytest.fixture
def quick() -> Headrace:
    return Headrace("memory://", lease=30)
