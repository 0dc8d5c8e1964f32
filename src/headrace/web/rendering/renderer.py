"""Render pages to HTML."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace.web.page import FlashMessage, HtmlPage
from headrace.web.rendering.formatting import FILTERS, visible
from headrace.web.routes import NAVIGATION
from headrace.web.visit import Visit

TEMPLATES = Path(__file__).parents[1] / "templates"


@cache
def _templates() -> Environment:
    """Compiled once per process."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals["navigation"] = NAVIGATION
    # As globals: imports at the head of a template are unknown in a block that is rendered alone.
    parts = made.get_template("parts.html").module
    macros = {name: macro for name, macro in vars(parts).items() if not name.startswith("_")}
    made.globals.update(macros)
    return made


class Renderer:
    """Renders pages with their templates. All values are escaped."""

    def __init__(self) -> None:
        self._templates = _templates()

    def document(self, visit: Visit, page: HtmlPage, flash: FlashMessage | None = None) -> str:
        return self._rendered(visit, page, bare=False, flash=flash)

    def live_block(self, visit: Visit, page: HtmlPage) -> str:
        """The main block alone."""
        return self._rendered(visit, page, bare=True, flash=None)

    def _rendered(self, visit: Visit, page: HtmlPage, **more: Any) -> str:
        known = {"refresh": None, **page.context, "visit": visit, "page": page, **more}
        return self._templates.get_template(page.template).render(known)
