"""A person at a browser, to whom whatever goes wrong in it is told at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Dialog, Locator, Page, Request, Response

from tests.browser.serving import tokens

# Said by the browser whenever an answer is a refusal; those are looked at by their status.
_REFUSED = "Failed to load resource: the server responded with a status of"
_WATCH = """
document.addEventListener("securitypolicyviolation", function (event) {
  console.error("content security policy: " + event.violatedDirective + " " + event.blockedURI);
});
"""


class Visitor:
    """A page, and what must not happen on it: errors of scripts, violations of the content security
    policy, dialogs, requests that fail or go elsewhere than to `origins`, refusals that are not
    `expected`."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.home = home
        self.origins = [home]
        self.expected: set[int] = set()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        page.on("dialog", self._asked)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    async def go(self, path: str) -> None:
        await self.page.goto(self.home + path)

    def button(self, name: str, within: Locator | None = None) -> Locator:
        return (within or self.page.locator("body")).get_by_role("button", name=name, exact=True)

    def row(self, text: str) -> Locator:
        """The row of a table that has a text in it."""
        return self.page.locator("tbody tr").filter(has_text=text)

    @property
    def flash(self) -> Locator:
        """What the dashboard says of the last action."""
        return self.page.locator(".flash[role=status]")

    def check(self) -> None:
        own = tuple(f"{origin}/" for origin in self.origins)
        outside = {url for url in self.requests if not url.startswith(own)}
        assert not outside, f"requests left the dashboard: {outside}"
        assert not self.troubles, self.troubles

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            self.troubles.append(f"console: {message.text}")

    async def _asked(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _failed(self, request: Request) -> None:
        # What is under way ends when its page is left.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"failed: {request.url} {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.troubles.append(f"answered {response.status}: {response.url}")


@asynccontextmanager
async def visiting(browser: Browser, home: str, **options: Any) -> AsyncIterator[Visitor]:
    """Someone who has just opened a browser that knows nothing of earlier ones; what went wrong in
    it fails the test at the end."""
    context = await browser.new_context(**options)
    context.set_default_timeout(20_000)
    await context.add_init_script(_WATCH)
    visitor = Visitor(await context.new_page(), home)
    try:
        if token := tokens.get(home):
            # As the address says that `headrace dashboard` prints.
            await visitor.go(f"/?token={token}")
            assert "token" not in visitor.page.url
        yield visitor
        visitor.check()
    finally:
        await context.close()
