"""By keyboard alone, without scripts, in the light and in the dark."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from tests.browser.serving import dashboard_at
from tests.browser.shop import Shop, bury
from tests.browser.visitor import Visitor, visiting

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(f"sqlite:///{tmp_path}/shop.db")


async def tab_to(visitor: Visitor, wanted: Locator) -> None:
    """Press the tabulator until something has the focus, and see that this is visible."""
    for _ in range(60):
        await visitor.page.keyboard.press("Tab")
        if await wanted.evaluate("element => element === document.activeElement"):
            style = await wanted.evaluate("element => getComputedStyle(element).outlineStyle")
            assert style == "solid", "the focus cannot be seen"
            return
    raise AssertionError(f"the tabulator never comes to {wanted}")


async def test_all_is_done_by_keyboard(shop: Shop, browser: Browser) -> None:
    async with shop.app as app, dashboard_at(app) as home, visiting(browser, home) as visitor:
        page = visitor.page
        await shop.greet.enqueue("someone")
        await visitor.go("/")
        await tab_to(visitor, page.get_by_role("link", name="Queues", exact=True))
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{home}/queues")
        await page.wait_for_load_state()
        await page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to content")
        await expect(skip).to_be_focused()
        await expect(skip).to_be_in_viewport()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        pause = visitor.button("Pause queue mail")
        await tab_to(visitor, pause)
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        await expect(pause).to_be_focused()
        await page.keyboard.press("Space")
        await expect(visitor.flash).to_contain_text("Paused queue mail")
        assert (await app.admin.queue("mail")).paused


async def test_pages_are_read_and_actions_done_without_scripts(
    shop: Shop, browser: Browser
) -> None:
    app = shop.app
    async with (
        app,
        app.worker(drain=0),
        dashboard_at(app) as home,
        visiting(browser, home, java_script_enabled=False) as visitor,
    ):
        page, (id,) = visitor.page, await bury(shop, 1)
        await visitor.go("/")
        await expect(page.locator(".chart svg").first).to_be_visible()
        await expect(visitor.row("payments").first).to_be_visible()
        for part in ("Queues", "Jobs", "Schedules", "Topics", "Workers", "Audit log", "Dead"):
            await page.get_by_role("link", name=part, exact=True).click()
            await expect(page.locator("h1")).to_have_text("Dead jobs" if part == "Dead" else part)
            await expect(page.locator(".panel").first).to_be_visible()
        await page.locator("tbody").get_by_role("link", name="charge").click()
        await expect(page.locator(".error")).to_contain_text(["was refused", "was refused"])
        await page.get_by_role("link", name="Edit and replay").click()
        await page.get_by_label("cents").fill("5")
        await visitor.button("Replay with these arguments").click()
        await expect(visitor.flash).to_have_text("Replayed with changed cents.")
        assert await app.job(id).result(timeout=10) == "charged 5 cents for o-0"
        await page.get_by_role("link", name="Refresh").click()
        await expect(page.locator(".why .badge")).to_have_text("done")


async def test_the_theme_is_the_systems_until_one_is_chosen(shop: Shop, browser: Browser) -> None:
    async with (
        shop.app as app,
        dashboard_at(app) as home,
        visiting(browser, home, color_scheme="light") as visitor,
    ):
        page = visitor.page

        async def light() -> bool:
            colour = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            return int(colour[4:].split(",")[0]) > 127

        await visitor.go("/")
        assert await light()
        await page.emulate_media(color_scheme="dark")
        assert not await light()
        await visitor.button("Light theme").click()
        assert await light()
        await visitor.go("/queues")
        assert await light()
        await visitor.button("Dark theme").click()
        await page.emulate_media(color_scheme="light")
        await visitor.go("/jobs")
        assert not await light()


async def test_a_page_that_may_not_be_followed_is_renewed_now_and_then(
    shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.streams.MOST_STREAMS", 0)
    async with shop.app as app, dashboard_at(app) as home, visiting(browser, home) as visitor:
        await shop.greet.enqueue("someone")
        await visitor.page.clock.install()
        await visitor.go("/queues")
        await expect(visitor.page.locator("[data-pulse]")).to_contain_text("Too many pages")
        await app.admin.pause("mail")
        await visitor.page.clock.fast_forward(16_000)
        await expect(visitor.button("Resume queue mail")).to_be_visible()


async def test_what_was_typed_before_the_scripts_came_stays(shop: Shop, browser: Browser) -> None:
    """On a slow line, a page can be read and typed into before it is live."""
    arrive = asyncio.Event()

    async def late(route: Route) -> None:
        await arrive.wait()
        await route.continue_()

    async with shop.app as app, dashboard_at(app) as home, visiting(browser, home) as visitor:
        page = visitor.page
        await page.route("**/live.js", late)
        await page.goto(f"{home}/jobs", wait_until="commit")
        await page.get_by_label("Text").fill("o-0")
        await page.get_by_label("State").select_option("dead")
        await page.get_by_label("Task", exact=True).focus()
        arrive.set()
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        await expect(page.get_by_label("Text")).to_have_value("o-0")
        await expect(page.get_by_label("State")).to_have_value("dead")


async def test_keys_lead_to_the_search_and_to_pages(shop: Shop, browser: Browser) -> None:
    async with shop.app as app, dashboard_at(app) as home, visiting(browser, home) as visitor:
        page = visitor.page
        await visitor.go("/jobs")
        await page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keys")
        await expect(keys).to_be_visible()
        await expect(keys).to_contain_text("search")
        await page.keyboard.press("Escape")
        await expect(keys).to_be_hidden()
        await page.keyboard.press("/")
        text = page.get_by_label("Text")
        await expect(text).to_be_focused()
        await page.keyboard.type("gq/?")
        await expect(text).to_have_value("gq/?")
        await text.blur()
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await expect(page).to_have_url(f"{home}/queues")


async def test_times_are_local_and_their_tooltips_utc(shop: Shop, browser: Browser) -> None:
    app = shop.app
    async with (
        app,
        dashboard_at(app) as home,
        visiting(browser, home, timezone_id="Asia/Tokyo") as visitor,
    ):
        job = await shop.greet.enqueue("someone")
        sent = (await app.admin.job(job.id)).sent
        assert sent is not None
        tokyo = sent.astimezone(ZoneInfo("Asia/Tokyo")).strftime("%Y-%m-%d %H:%M:%S GMT+9")
        await visitor.go(f"/job?id={job.id}")
        time = visitor.page.locator(".timeline time").first
        await expect(visitor.page.locator("[data-pulse]")).to_have_text("Live")
        await expect(time).to_have_text(tokyo)
        await expect(time).to_have_attribute("title", f"{sent:%Y-%m-%d %H:%M:%S} UTC")


async def test_sentences_and_drawings_say_local_times_too(shop: Shop, browser: Browser) -> None:
    app = shop.app
    async with (
        app,
        app.worker(),
        dashboard_at(app) as home,
        visiting(browser, home, timezone_id="Asia/Tokyo") as visitor,
    ):
        (id,) = await bury(shop, 1)
        last = (await app.admin.job(id)).attempts[-1]
        tokyo, utc = last.ended.astimezone(ZoneInfo("Asia/Tokyo")), f"{last.ended:%F %T} UTC"
        await visitor.go(f"/job?id={id}")
        page = visitor.page
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        await expect(page.locator(".sentence")).to_contain_text(f"since {tokyo:%F %T} GMT+9, after")
        await expect(page.locator(".sentence time")).to_have_attribute("title", utc)
        bar = page.locator(".gantt title").last
        began = last.started.astimezone(ZoneInfo("Asia/Tokyo"))
        said = f"from {began:%F %T} GMT+9 ({last.started:%F %T} UTC) on"
        assert said in (await bar.text_content() or "")
        await visitor.go("/queue?name=payments")
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        said = await page.locator(".chart title").first.text_content() or ""
        assert re.match(r"\d\d:\d\d GMT\+9 \(\d\d:\d\d UTC\): ", said), said


async def test_all_on_a_page_are_selected_and_an_id_is_copied(shop: Shop, browser: Browser) -> None:
    app = shop.app
    granted = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with (
        app,
        app.worker(drain=0),
        dashboard_at(app) as home,
        visiting(browser, home, **granted) as visitor,
    ):
        page, ids = visitor.page, await bury(shop, 3)
        await visitor.go("/dead")
        await page.get_by_label("Select all on this page").check()
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        await expect(page.locator("tbody input:checked")).to_have_count(3)
        await visitor.button("Purge selected").click()
        await visitor.button("Purge").click()
        await expect(visitor.flash).to_have_text("3 jobs purged.")
        job = await shop.greet.options(delay=600).enqueue("someone")
        await visitor.go(f"/job?id={job.id}")
        await visitor.button("Copy the id").click()
        assert await page.evaluate("() => navigator.clipboard.readText()") == job.id
        assert job.id not in ids
