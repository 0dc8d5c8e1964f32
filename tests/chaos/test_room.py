"""Nothing sticks out, is cut off or is broken to bits, from a phone to a desktop, light or dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from headrace.web.auth.users import Passwords
from tests.browser.room import sticking_out
from tests.browser.serving import dashboard_at
from tests.browser.shop import Shop, fill
from tests.browser.visitor import visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_page_has_room(browser: Browser, tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/shop.db")
    app, auth = shop.app, Passwords(["ann:open sesame"])
    paths = {
        "/": "Overview", "/queues": "Queues", "/queue?name=payments": "Queue payments",
        "/jobs": "Jobs", "/dead": "Dead jobs", "/dead?by=error": "Dead jobs",
        "/task?queue=payments&name=charge": "Task charge", "/schedules": "Schedules",
        "/topics": "Topics",
        "/topic?name=orders": "Topic orders", "/workers": "Workers", "/actions": "Audit log",
        "/group?topic=orders&group=billing": "Group billing of orders",
    }  # fmt: skip
    async with (
        app,
        app.worker(drain=0),
        dashboard_at(app, "/jobs", auth=auth) as home,
        visiting(browser, home) as visitor,
    ):
        ids = await fill(shop)
        page, found = visitor.page, {}
        await visitor.go("/login")
        found["/login"] = await sticking_out(visitor)
        await page.get_by_label("Name").fill("ann")
        await page.get_by_label("Password").fill("open sesame")
        await visitor.button("Log in").click()
        paths |= {f"/job?id={ids['running']}": "export", f"/job?id={ids['flow']}": "gallery"}
        paths |= {f"/job?id={ids['dead']}": "charge", f"/dead_job?id={ids['dead']}": "Edit charge"}
        for path, title in paths.items():
            await visitor.go(path)
            await expect(page.locator("h1")).to_have_text(title)
            await page.evaluate(
                "() => document.querySelectorAll('details').forEach(d => d.open = true)"
            )
            found[path] = await sticking_out(visitor, words=True)
        assert [f"{path} {each}" for path, seen in found.items() for each in seen] == []
