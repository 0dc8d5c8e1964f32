"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Containers have no user namespaces for its sandbox, and little shared memory.
_ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")


def chromium_binary() -> str:
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise RuntimeError(
        "the tests of the dashboard need a browser: install it with 'apt-get install chromium'; "
        "'make test' does so"
    )


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser that nobody sees."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_binary(), args=_ARGUMENTS
        )
        try:
            yield browser
        finally:
            await browser.close()
