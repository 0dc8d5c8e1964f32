"""Texts that are meant to do harm are shown as text, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from headrace.web.auth.users import User
from tests.browser.hostile import NAME, TEXT, UNSEEN, Hostile, pages
from tests.browser.room import sticking_out
from tests.browser.serving import dashboard_at
from tests.browser.visitor import Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

_MADE = """() => ({
  hacked: "hacked" in window,
  images: document.querySelectorAll("img").length - document.querySelectorAll(".brand img").length,
  odd: document.querySelectorAll("iframe, b, style, object, [onerror], [onload], [style]").length,
  scripts: [...document.scripts].filter(each => !each.src.startsWith(location.origin)).length,
  links: [...document.querySelectorAll("a")].filter(each => each.protocol === "javascript:").length,
})"""
_NOTHING = {"hacked": False, "images": 0, "odd": 0, "scripts": 0, "links": 0}


async def look(visitor: Visitor, path: str) -> list[str]:
    """What is wrong with a page, as it was sent and as the first live update made it."""
    page = visitor.page
    await visitor.go(path)
    size = len(await page.content())
    if await page.locator("[data-pulse]").count():
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
    made = await page.evaluate(_MADE)
    text = await page.locator("main").inner_text()
    unseen = UNSEEN & set(text)
    found = [] if size < 400_000 else [f"{size:,} characters"]
    found += [] if made == _NOTHING else [str(made)]
    found += [] if "hacked" in text or "<b>" in text else ["nothing harmful is on it"]
    found += [f"{sorted(map(ascii, unseen))} are in the text"] if unseen else []
    return found + await sticking_out(visitor)


async def test_hostile_texts_do_nothing(browser: Browser, tmp_path: Path) -> None:
    hostile = Hostile(f"sqlite:///{tmp_path}/hostile.db")
    app = hostile.app
    async with (
        app,
        app.worker(drain=0),
        dashboard_at(app, auth=lambda request: User(f"{TEXT}\ud800"), title=TEXT) as home,
        visiting(browser, home) as visitor,
    ):
        found = {}
        for path, query in (await pages(hostile)).items():
            address = f"{path.strip()}?{urlencode(query)}"
            found[address] = await look(visitor, address)
        assert {path: seen for path, seen in found.items() if seen} == {}

        await visitor.go(f"/queue?{urlencode({'name': NAME})}")
        await visitor.button("Pause").click()
        await expect(visitor.flash).to_contain_text(f"Paused queue {NAME}")
        assert (await app.admin.queue(NAME)).paused
        assert await visitor.page.evaluate(_MADE) == _NOTHING
        hostile.end.set()
