"""Who is let in, and what they are refused, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from headrace.web.auth.secret import own_host
from headrace.web.auth.users import Passwords
from tests.browser.serving import dashboard_at, served, tokens
from tests.browser.shop import Shop
from tests.browser.visitor import Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

# By hand, with a token that is right.
_POST = """async () => {
  const token = document.querySelector("[name=csrf_token]").value;
  const sent = new URLSearchParams({queue: "mail", csrf_token: token});
  return (await fetch("/actions/pause", {method: "POST", body: sent})).status;
}"""

# As in another tab of the same browser: this page stays where it is.
_LEAVE = """async () => {
  const token = document.querySelector("[name=csrf_token]").value;
  await fetch("/logout", {method: "POST", body: new URLSearchParams({csrf_token: token})});
}"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(f"sqlite:///{tmp_path}/shop.db")


async def log_in(visitor: Visitor, name: str, password: str) -> None:
    await visitor.page.get_by_label("Name").fill(name)
    await visitor.page.get_by_label("Password").fill(password)
    await visitor.button("Log in").click()


async def test_people_log_in_and_do_what_they_may(shop: Shop, browser: Browser) -> None:
    auth = Passwords(["ann:open sesame", "bob:look only:viewer"])
    async with (
        shop.app as app,
        dashboard_at(app, auth=auth) as home,
        visiting(browser, home) as visitor,
    ):
        page = visitor.page
        await shop.greet.enqueue("someone")
        await visitor.go("/queues")
        await expect(page).to_have_title("Log in · Headrace")
        visitor.expected.add(401)
        await log_in(visitor, "bob", "open sesame")
        await expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
        await log_in(visitor, "bob", "look only")
        await expect(page).to_have_url(f"{home}/queues")
        await expect(visitor.row("mail")).to_be_visible()
        await expect(visitor.button("Pause queue mail")).to_have_count(0)
        visitor.expected.add(403)
        assert await page.evaluate(_POST) == 403
        assert not (await app.admin.queue("mail")).paused
        await visitor.button("Log out").click()
        await visitor.go("/queues")
        await expect(page).to_have_title("Log in · Headrace")

        await log_in(visitor, "ann", "open sesame")
        await expect(page.locator("[data-pulse]")).to_have_text("Live")
        await page.evaluate(_LEAVE)
        await expect(page).to_have_title("Log in · Headrace")

        await log_in(visitor, "ann", "open sesame")
        await visitor.button("Pause queue mail").click()
        await expect(visitor.flash).to_contain_text("Paused queue mail")
        assert (await app.admin.queue("mail")).paused
        (action,) = await app.admin.actions()
        assert (action.actor, action.verb, action.target) == ("ann", "pause", "mail")


async def test_a_form_on_another_site_does_nothing(shop: Shop, browser: Browser) -> None:
    async with shop.app as app, dashboard_at(app) as home, visiting(browser, home) as visitor:

        async def trap(request: Request) -> HTMLResponse:
            return HTMLResponse(
                f'<form method="post" action="{home}/actions/pause">'
                '<input name="queue" value="mail"><button>Win a prize</button></form>'
            )

        await shop.greet.enqueue("someone")
        await visitor.go("/queues")
        visitor.expected |= {403, 404}
        async with served(Starlette(routes=[Route("/", trap)])) as there:
            # Another port of this machine, and another name, as any page in the web would have.
            for elsewhere in (there, there.replace("127.0.0.1", "localhost")):
                visitor.origins.append(elsewhere)
                await visitor.page.goto(elsewhere)
                await visitor.button("Win a prize").click()
                await expect(visitor.page.locator("main")).to_contain_text(
                    "This came from another site, and was not done."
                )
        assert not (await app.admin.queue("mail")).paused


async def test_without_auth_the_token_is_asked_for_and_can_be_typed(
    shop: Shop, browser: Browser
) -> None:
    async with shop.app as app, dashboard_at(app) as home:
        token = tokens.pop(home)
        async with visiting(browser, home) as visitor:
            visitor.expected.add(401)
            page = visitor.page
            await visitor.go("/queues")
            await expect(page).to_have_title("Log in · Headrace")
            await expect(page.locator("main")).to_contain_text("for the user who started it")
            await page.get_by_label("Token").fill("not the token")
            await visitor.button("Log in").click()
            await expect(page.get_by_role("alert")).to_have_text("This is not the token.")
            await page.get_by_label("Token").fill(token)
            await visitor.button("Log in").click()
            await expect(page).to_have_url(f"{home}/queues")
            await expect(page.locator("[data-pulse]")).to_have_text("Live")


async def test_the_cookie_of_the_own_name_goes_to_no_other_server(
    shop: Shop, browser: Browser
) -> None:
    heard: list[str] = []

    async def listen(request: Request) -> HTMLResponse:
        heard.append(request.headers.get("cookie", ""))
        return HTMLResponse("<title>Elsewhere</title><link rel=icon href=data:,>")

    async with shop.app as app, dashboard_at(app) as home:
        token = tokens.pop(home)
        name = own_host(token)
        own = home.replace("127.0.0.1", name)
        async with (
            served(Starlette(routes=[Route("/", listen)])) as there,
            visiting(browser, own) as visitor,
        ):
            await shop.greet.enqueue("someone")
            await visitor.go(f"/queues?token={token}")
            await expect(visitor.page).to_have_url(f"{own}/queues")
            await visitor.button("Pause queue mail").click()
            await expect(visitor.flash).to_contain_text("Paused queue mail")
            kept = await visitor.page.context.cookies()
            assert {cookie["domain"] for cookie in kept} == {name}, "of this host alone"
            for other in ("127.0.0.1", "localhost", "another.localhost", name):
                elsewhere = there.replace("127.0.0.1", other)
                visitor.origins.append(elsewhere)
                await visitor.page.goto(elsewhere)
                await expect(visitor.page).to_have_title("Elsewhere")
    *others, same = heard
    assert others == ["", "", ""]
    assert "session" in same, "the test would prove nothing"
