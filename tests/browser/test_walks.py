"""The dashboard, walked through as a person would."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.serving import dashboard_at
from tests.browser.shop import Shop, bury
from tests.browser.visitor import Visitor, visiting

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(f"sqlite:///{tmp_path}/shop.db")


@asynccontextmanager
async def opened(shop: Shop, browser: Browser) -> AsyncIterator[Visitor]:
    """A visitor of the dashboard of a shop whose worker runs."""
    app = shop.app
    async with (
        app,
        app.worker(drain=0),
        dashboard_at(app) as home,
        visiting(browser, home) as visitor,
    ):
        yield visitor


async def test_a_job_is_seen_running_live(shop: Shop, browser: Browser) -> None:
    async with opened(shop, browser) as visitor:
        job, page = await shop.export.enqueue(3), visitor.page
        await visitor.go("/jobs")
        await visitor.row("export").get_by_role("link", name="export").click()
        await page.evaluate("() => { window.loadedOnce = true }")
        await expect(page.locator(".why .badge")).to_have_text("running")
        for number in (1, 2):
            await expect(page.locator(".progress")).to_contain_text(f"page {number} of 3")
            await expect(page.locator(".why progress")).to_have_attribute("value", str(number / 3))
            shop.turns.put_nowait(None)
        shop.turns.put_nowait(None)
        await expect(page.locator(".why .badge")).to_have_text("done")
        await expect(page.locator(".log")).to_contain_text("wrote page 3 of 3")
        await expect(page.locator("section", has_text="Result").locator("pre").last).to_have_text(
            "3"
        )
        assert await page.evaluate("() => window.loadedOnce"), "the page was loaded again"
        assert await job.result(timeout=5) == 3


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_failed_job_is_found_read_edited_and_replayed(
    browser: Browser, kind: str, tmp_path: Path, redis_url: str, namespace: str
) -> None:
    url = redis_url if kind == "redis" else f"sqlite:///{tmp_path}/shop.db"
    shop = Shop(url, namespace=namespace)
    async with opened(shop, browser) as visitor:
        (id, *_), page = await bury(shop, 3), visitor.page
        await visitor.go("/")
        await page.get_by_role("link", name="Jobs", exact=True).click()
        await page.get_by_label("State").select_option("dead")
        await visitor.button("Filter").click()
        await expect(page.locator("tbody tr")).to_have_count(3)
        await page.get_by_label("Text").fill("o-0")
        await page.get_by_label("Task", exact=True).fill("charge")
        await visitor.button("Filter").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.locator("tbody").get_by_role("link", name="charge").click()

        await expect(page.locator(".why .badge")).to_have_text("dead")
        await page.locator("#traceback summary").click()
        shown = page.locator("#traceback pre")
        await expect(shown).to_contain_text("TimeoutError: the bank did not answer")
        await expect(shown).to_contain_text("CardRefused: the card for order o-0 was refused")

        await page.get_by_role("link", name="Edit and replay").click()
        await page.get_by_label("cents").fill("nothing")
        visitor.expected.add(422)
        await visitor.button("Replay with these arguments").click()
        await expect(page.locator(".argument .bad")).to_contain_text("not JSON")
        await page.get_by_label("cents").fill("995")
        await visitor.button("Replay with these arguments").click()
        await expect(visitor.flash).to_have_text("Replayed with changed cents.")
        await expect(page.locator(".why .badge")).to_have_text("done")
        await expect(page.locator("main")).to_contain_text("charged 995 cents for o-0")
        assert (await shop.app.admin.job(id)).result == "charged 995 cents for o-0"


async def test_all_that_match_are_replayed_after_a_question(shop: Shop, browser: Browser) -> None:
    async with opened(shop, browser) as visitor:
        await bury(shop, 12)
        await shop.app.admin.pause("payments")
        page = visitor.page
        await visitor.go("/dead")
        await page.get_by_label("Text").fill("o-1")
        await visitor.button("Filter").click()
        await expect(page.locator("tbody tr")).to_have_count(3)
        asked = page.get_by_text("Replay all dead jobs in all queues and groups with the text")
        await visitor.button("Replay all that match").click()
        await expect(asked).to_contain_text("“o-1”?")
        await page.get_by_role("link", name="Go back").click()
        await expect(page.locator("tbody tr")).to_have_count(3)
        assert (await shop.app.admin.queue("payments")).dead == 12
        await visitor.button("Replay all that match").click()
        await expect(asked).to_be_visible()
        await visitor.button("Replay all that match").click()
        await expect(visitor.flash).to_have_text("3 jobs replayed.")
        await expect(page.locator("main")).to_contain_text("No dead job fits this filter.")

        await page.get_by_role("link", name="Clear").click()
        await expect(page.locator("tbody tr")).to_have_count(9)
        for box in (0, 1):
            await page.locator("tbody input[type=checkbox]").nth(box).check()
        await visitor.button("Purge selected").click()
        await visitor.button("Purge").click()
        await expect(visitor.flash).to_have_text("2 jobs purged.")
        queue = await shop.app.admin.queue("payments")
        assert (queue.dead, queue.waiting) == (7, 3)


async def test_a_queue_is_paused_and_a_schedule_run_now(shop: Shop, browser: Browser) -> None:
    async with opened(shop, browser) as visitor:
        page, admin = visitor.page, shop.app.admin
        await shop.greet.enqueue("someone")
        await visitor.go("/queues")
        await visitor.button("Pause queue mail").click()
        await expect(visitor.flash).to_contain_text("Paused queue mail")
        await expect(visitor.row("mail").first).to_contain_text("paused")
        assert (await admin.queue("mail")).paused

        await page.get_by_role("link", name="Schedules").click()
        row = visitor.row("greet-team")
        await expect(row).to_contain_text("0 9 * * MON-FRI")
        await visitor.button("Run schedule greet-team now").click()
        await expect(visitor.flash).to_contain_text("Ran schedule greet-team")
        await visitor.button("Pause schedule greet-team").click()
        await expect(visitor.row("greet-team")).to_contain_text("paused")

        await page.get_by_role("link", name="Queues", exact=True).click()
        await page.get_by_role("link", name="mail", exact=True).click()
        waiting = page.locator(".card", has_text="Waiting").locator(".value")
        await expect(waiting).to_have_text("1")
        await visitor.button("Resume").click()
        await expect(visitor.flash).to_have_text("Resumed queue mail.")
        await expect(waiting).to_have_text("0")

        await page.get_by_role("link", name="Audit log").click()
        await expect(page.locator("tbody td[data-label=Action]")).to_have_text(
            ["resume", "pause schedule", "run schedule", "pause"]
        )
        await expect(page.locator("tbody")).to_contain_text(re.compile("local.*greet-team", re.S))
